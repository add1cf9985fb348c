package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/metrics"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
)

// Options says what to run and with what.
type Options struct {
	Config    *experiment.Run
	ID        string // the run's identity
	Cell      string // key of its cell
	Dir       record.Run
	Catalogue *host.Catalogue
	CacheDir  string
	Backend   *policy.Backend
	// Accept goes on from an earlier attempt although preconditions changed since.
	Accept bool
	// Fresh starts from the beginning although an earlier attempt could be continued.
	Fresh bool
	// Pause, once closed, ends the run after the training step in progress, with a checkpoint and [ErrPaused].
	Pause    <-chan struct{}
	Progress func(Progress) // may be nil
	Logger   *slog.Logger   // may be nil
	// Started is told the number of the attempt once it exists; may be nil.
	Started func(attempt, step int) error
	// Lost is told why an attempt ended that another one continues, from its last checkpoint; may be nil.
	Lost func(attempt, step int, reason string) error
}

// Evaluated begins the phase that tells what an evaluation gave.
const Evaluated = "evaluated"

// Progress tells how far a run is.
type Progress struct {
	Phase   string // what it is doing: "reading …", "training", "evaluating dev"; "evaluated dev" has the evaluation's metrics
	Stage   string
	Step    int // training steps done, over all stages
	Of      int
	Done    int // within the phase, of Total; 0 of 0 where there is nothing to count
	Total   int
	Metrics map[string]float64 // of the last step, after it, or of an evaluation
}

// ErrPaused ends a run that was asked to stop after a checkpoint: executing it again goes on from there.
var ErrPaused = errors.New("stopped on request, with a checkpoint")

// StaleError says that what a run depends on has changed since it began.
type StaleError struct {
	Run     string
	Changes []record.Change
}

func (e *StaleError) Error() string {
	changes := make([]string, len(e.Changes))
	for i, c := range e.Changes {
		changes[i] = c.String()
	}
	return fmt.Sprintf("run %s is stale: %s; go on with --accept, or start it afresh with --fresh", e.Run, strings.Join(changes, ", "))
}

// runner is a run in progress.
type runner struct {
	Options
	config    *experiment.Run
	log       *slog.Logger
	resources *resources
	sup       *host.Supervisor
	attempt   record.Attempt
	sink      metrics.Sink
	saved     time.Time // of the last checkpoint

	models    *models
	trainer   *policy.Trainer
	trainedBy string  // role that trainer trains
	critic    *critic // nil: the stage in progress has none
	criticOf  string  // role that it was made from
	decoded   atomic.Int64
	tools     dispatcher

	state    state
	resume   *record.Checkpoint   // that the state was read from; nil once the first stage has taken it up
	warnings []string             // of what the attempt reads and starts; those of the training are in the state
	crash    *crash               // that ended the training
	crashes  []string             // that the run went on after
	started  time.Time            // or when its time was last added to the budget
	evals    map[string]evaluated // by name: the latest
	// weightsOf is the stage that the weights to evaluate come from, -1 for the first ones.
	weightsOf int
	stopped   string   // guard that ended the training
	measured  []string // metrics of the last step, sorted
}

// Execute carries the run out, from its last checkpoint if an earlier attempt left one, and writes its result.
func Execute(ctx context.Context, o Options) (result record.Result, err error) {
	if err := os.MkdirAll(o.Dir.Dir, 0o755); err != nil {
		return result, fmt.Errorf("run %s: %w", o.ID, err)
	}
	lock, err := record.Lock(o.Dir.LockPath())
	if err != nil {
		return result, fmt.Errorf("run %s: %w", o.ID, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if err := record.RemoveTemp(o.Dir.Dir); err != nil {
		return result, fmt.Errorf("run %s: %w", o.ID, err)
	}
	r := newRunner(o)
	defer func() { err = errors.Join(err, r.close()) }()
	for err = r.advance(ctx); err != nil && r.restartable(ctx); {
		if r, err = r.restart(); err == nil {
			err = r.advance(ctx)
		}
	}
	if err != nil {
		return result, r.final(err)
	}
	result, err = r.finish(ctx)
	if err != nil {
		return result, fmt.Errorf("run %s: %w", o.ID, err)
	}
	return result, nil
}

func newRunner(o Options) *runner {
	r := &runner{Options: o, config: o.Config, log: o.Logger, started: time.Now(), evals: map[string]evaluated{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r
}

// report tells the progress.
func (r *runner) report(phase string, done, total int) {
	if r.Progress != nil {
		p := Progress{Phase: phase, Step: r.state.Global, Of: r.steps(), Done: done, Total: total}
		if r.state.Stage < len(r.config.Stages) {
			p.Stage = r.config.Stages[r.state.Stage].Name
		}
		r.Progress(p)
	}
}

// steps counts the training steps of all stages.
func (r *runner) steps() (n int) {
	for _, s := range r.config.Stages {
		n += s.Steps
	}
	return n
}

// open reads everything, compares it with what an earlier attempt saw, and starts the attempt with its processes.
func (r *runner) open(ctx context.Context) error {
	if err := supported(r.config); err != nil {
		return err
	}
	r.readFrom(newResources(r.config, r.CacheDir, r.report))
	for _, handle := range sorted(r.config.Indexes) {
		if _, err := r.resources.index(ctx, handle); err != nil {
			return err
		}
	}
	for _, s := range r.config.Stages {
		for _, d := range append(inputs(s.Train), inputs(s.Experts)...) {
			if _, err := r.resources.questions(ctx, d, r.config.Tools); err != nil {
				return err
			}
		}
	}
	for _, e := range r.config.Evaluations {
		if _, err := r.resources.questions(ctx, e.Dataset, e.Tools); err != nil {
			return err
		}
	}
	manifest, err := r.manifest(ctx)
	if err != nil {
		return err
	}
	from, info, err := r.continuation(manifest)
	if err != nil {
		return err
	}
	if from == nil { // one that goes on may need no answers but those it has
		if err := r.reach(ctx); err != nil {
			return err
		}
	}
	if r.attempt, err = r.Dir.NewAttempt(from, info); err != nil {
		return err
	}
	if from == nil { // what an earlier attempt came to is not what this one does
		if err := r.Dir.RemoveResult(); err != nil {
			return err
		}
	}
	if err := r.Dir.WriteManifest(manifest); err != nil {
		return err
	}
	r.resume = from
	if err := r.loadPolicies(ctx, from); err != nil {
		return err
	}
	r.carryOver(info)
	if r.Started != nil {
		if err := r.Started(r.attempt.N, r.state.Global); err != nil {
			return err
		}
	}
	if r.sink, err = metrics.Open(r.attempt); err != nil {
		return err
	}
	r.sup, err = host.NewSupervisor(r.Catalogue, host.RunOptions{RunDir: r.attempt.Dir, Logger: r.log})
	if err != nil {
		return err
	}
	if err := r.startTools(ctx); err != nil {
		return err
	}
	if err := r.checkVocabulary(ctx); err != nil {
		return err
	}
	return r.checkExperts(ctx)
}

// readFrom sets what the run reads.
func (r *runner) readFrom(resources *resources) {
	resources.policyDigest = func(name string) (string, error) {
		return r.weightsDigest(nil, name)
	}
	resources.artefact = r.fromArtefact
	r.resources = resources
}

// startTools starts the retrievers of the run and of its evaluations.
func (r *runner) startTools(ctx context.Context) error {
	dispatch, err := r.dispatcher(ctx, r.config.Tools)
	if err != nil {
		return err
	}
	r.tools = dispatch
	for _, e := range r.config.Evaluations {
		if _, err := r.dispatcher(ctx, e.Tools); err != nil {
			return err
		}
	}
	r.warnings = append(r.warnings, r.resources.warnings...)
	return nil
}

func (r *runner) dispatcher(ctx context.Context, tools map[string]*experiment.Tool) (dispatcher, error) {
	dispatch := dispatcher{}
	for _, name := range sorted(tools) {
		if err := r.resources.startTool(ctx, r.sup, tools[name]); err != nil {
			return nil, err
		}
		dispatch[name] = r.resources.tools[tools[name]]
	}
	return dispatch, nil
}

// engine runs episodes of the model with some tools.
func (m *model) engine(tools dispatcher) *rollout.Engine {
	return &rollout.Engine{Sampler: m.sampler, Tokenizer: m.tokenizer, Tools: tools, Kept: &m.kept}
}

func (r *runner) close() error {
	var errs []error
	if r.sup != nil {
		errs = append(errs, r.sup.Close())
	}
	if r.sink != nil {
		errs = append(errs, r.sink.Close())
	}
	if r.trainer != nil {
		errs = append(errs, r.trainer.Close())
	}
	if r.critic != nil {
		errs = append(errs, r.critic.Close())
	}
	if r.models != nil {
		errs = append(errs, r.models.close())
	}
	return errors.Join(errs...)
}

// manifest lists what the run depends on besides its configuration.
func (r *runner) manifest(ctx context.Context) (record.Manifest, error) {
	m := record.Manifest{Run: r.ID, Created: time.Now().UTC(), Digests: r.resources.digests(), Deterministic: r.deterministic()}
	for _, p := range r.plugins() {
		m.Digests["plugin."+p.Info.Pack] = p.Info.Digest
	}
	for _, name := range r.policyNames() {
		digest, err := r.weightsDigest(nil, name)
		if err != nil {
			return m, err
		}
		m.Digests[precondition(name)] = digest
	}
	var err error
	if m.Digests["core"], err = selfDigest(); err != nil {
		return m, err
	}
	m.TrainsObservations, err = r.trainsObservations(func(st *experiment.Stage) (sdk.PlanResponse, error) { return r.planStage(ctx, st) })
	if err != nil {
		return m, err
	}
	describeBackend(&m, r.Backend.Describe())
	return m, nil
}

// policyNames lists the roles of the run, main among them, and the handles of policies that only plugins refer to.
func (r *runner) policyNames() []string {
	names := sorted(r.config.Policies)
	if !slices.Contains(names, mainRole) {
		names = append(names, mainRole) // an error that says so
	}
	for _, handle := range sorted(r.config.PolicyBlocks) {
		p := r.config.PolicyBlocks[handle]
		if !slices.ContainsFunc(names, func(role string) bool { return r.config.Policies[role] == p }) {
			names = append(names, handle)
		}
	}
	return names
}

// precondition names a policy in the manifest.
func precondition(name string) string {
	if strings.Contains(name, ".") {
		return "reference " + name
	}
	return "policy." + name
}

func (r *runner) deterministic() bool {
	if r.config.Deterministic != nil {
		return *r.config.Deterministic
	}
	return !r.Backend.Describe().XLA
}

// plugins lists every plugin that the run starts.
func (r *runner) plugins() []*experiment.Plugin {
	var list []*experiment.Plugin
	for _, t := range r.config.Tools {
		list = append(list, t.Retriever)
	}
	for _, e := range r.config.Evaluations {
		for _, t := range e.Tools {
			list = append(list, t.Retriever)
		}
	}
	for _, s := range r.config.Stages {
		list = append(list, s.Algorithm)
		if s.Reward != nil {
			for _, source := range s.Reward.Sources {
				list = append(list, source.Plugin)
			}
		}
	}
	return list
}

// continuation decides from where the attempt begins.
func (r *runner) continuation(now record.Manifest) (*record.Checkpoint, record.AttemptInfo, error) {
	var info record.AttemptInfo
	before, ok, err := r.Dir.ReadManifest()
	if err != nil || !ok || r.Fresh {
		return nil, info, err
	}
	latest, ok, err := r.Dir.LatestCheckpoint()
	if err != nil || !ok {
		return nil, info, err
	}
	info.Changes = record.Diff(before, now)
	if stale := r.stale(info.Changes); len(stale) > 0 && !r.Accept {
		return nil, info, &StaleError{r.ID, stale}
	}
	info.Inexact = len(info.Changes) > 0 || !now.Deterministic
	return &latest, info, nil
}

// stale keeps the changes after which a run is another one: those of what is read, where the training reads it.
func (r *runner) stale(changes []record.Change) []record.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c record.Change) bool { return c.Platform || !r.matters(c.Name) })
}

// matters says whether a change of a precondition touches the training: a dataset that is only evaluated does not.
func (r *runner) matters(name string) bool {
	used := false
	for _, s := range r.config.Stages {
		for _, d := range append(inputs(s.Train), inputs(s.Experts)...) {
			used = used || d.Handle == name
		}
	}
	for _, e := range r.config.Evaluations {
		if e.Dataset.Handle == name && !used {
			return false
		}
	}
	return true
}

func join(elem ...string) string { return filepath.Join(elem...) }
