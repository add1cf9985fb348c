package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/internal/suggest"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// stage is a stage in progress.
type stage struct {
	run    *runner
	config *experiment.Stage
	key    rng.Key

	model       *model           // the policy that is trained, or that a produce stage samples from
	self        asked            // the stage's own agent
	agents      map[string]asked // by name and tools
	scorer      *scorer
	cursor      *cursor
	experts     *questions // nil for none
	annotations annotations
	algorithm   sdk.Algorithm
	host        *algorithmHost
	plan        sdk.PlanResponse
	reference   bool // the plan asks for a reference policy
	trainer     *policy.Trainer
}

// train carries out what is left of the stages.
func (r *runner) train(ctx context.Context) error {
	if r.state.Global == 0 {
		if err := r.evaluateDue(ctx); err != nil {
			return err
		}
	}
	for r.state.Stage < len(r.config.Stages) && r.stopped == "" && r.state.StoppedBy == "" {
		s, err := r.openStage(ctx)
		if err != nil {
			return fmt.Errorf("stage %q: %w", r.config.Stages[r.state.Stage].Name, err)
		}
		if err := s.train(ctx); err != nil {
			r.crash = s.crashed(err)
			return fmt.Errorf("stage %q: %w", s.config.Name, err)
		}
	}
	return nil
}

// openStage starts the stage's plugins and asks the algorithm for its plan.
func (r *runner) openStage(ctx context.Context) (*stage, error) {
	index := r.state.Stage
	s := &stage{run: r, config: r.config.Stages[index], agents: map[string]asked{}, key: rng.New(uint64(r.config.Seed), uint64(index))}
	var err error
	if s.model, err = r.models.get(ctx, s.role()); err != nil {
		return nil, err
	}
	if s.self, err = s.ask("", nil); err != nil {
		return nil, err
	}
	data, err := r.resources.questions(ctx, s.config.Train, r.config.Tools)
	if err != nil {
		return nil, err
	}
	if s.cursor, err = newCursor(data, s.config.Train.Hops, s.config.Train.Order == "shuffled", s.key.WithString("order")); err != nil {
		return nil, fmt.Errorf("%s: %w", at(s.config.Train.Handle, s.config.Train.Range), err)
	}
	if s.config.Experts != nil {
		if s.experts, err = r.resources.questions(ctx, s.config.Experts, r.config.Tools); err != nil {
			return nil, err
		}
		if usesArtefact(s.config.Experts) {
			if err := s.checkExperts(ctx); err != nil {
				return nil, err
			}
		}
	}
	if s.annotations, err = r.annotations(s.config.Annotations); err != nil {
		return nil, err
	}
	if err := s.startPlugins(ctx); err != nil {
		return nil, err
	}
	if s.plan, err = askPlan(ctx, s.algorithm, s.config); err != nil {
		return nil, err
	}
	s.reference = s.plan.Reference != ""
	if s.plan.TrainsObservations {
		r.warnings = append(r.warnings, fmt.Sprintf("stage %q: the objective of %q also reaches tokens of observations", s.config.Name, s.config.Algorithm.Label))
	}
	return s, s.begin(ctx)
}

// role is that of the policy that the stage trains.
func (s *stage) role() string { return roleOf(s.config.Policy) }

// checkExperts parses the experts of the stages to come, so that a transcript that cannot be used is found before the
// first step and not in the middle of a stage.
func (r *runner) checkExperts(ctx context.Context) error {
	for _, c := range r.config.Stages[r.state.Stage:] {
		if c.Experts == nil || usesArtefact(c.Experts) {
			continue
		}
		data, err := r.resources.questions(ctx, c.Experts, r.config.Tools)
		if err != nil {
			return err
		}
		s := &stage{run: r, config: c, agents: map[string]asked{}, experts: data, cursor: &cursor{data: data}}
		if s.self, err = s.ask("", nil); err == nil {
			s.model, err = r.models.get(ctx, s.role())
		}
		if err == nil {
			err = s.checkExperts(ctx)
		}
		if err != nil {
			return fmt.Errorf("stage %q: %w", c.Name, err)
		}
		if err := r.knownExperts(ctx, c, data); err != nil {
			return err
		}
	}
	return nil
}

// checkExperts parses all experts of the stage.
func (s *stage) checkExperts(ctx context.Context) error {
	if s.experts.Endless() {
		return nil // made by a script
	}
	for i := range s.experts.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		q, err := s.experts.At(i)
		if err != nil {
			return err
		}
		if _, err := s.expertsOf(drawn{Question: q, index: i}); err != nil {
			return err
		}
	}
	return nil
}

// knownExperts warns of experts of questions that a stage does not train on, and refuses a dataset of nothing else.
func (r *runner) knownExperts(ctx context.Context, c *experiment.Stage, data *questions) error {
	if data.Endless() || usesArtefact(c.Train) {
		return nil
	}
	train, err := r.resources.questions(ctx, c.Train, r.config.Tools)
	if err != nil {
		return err
	}
	u, err := unknownExperts(data.Dataset, train.Dataset)
	if err != nil {
		return fmt.Errorf("stage %q: %w", c.Name, err)
	}
	if u.count == 0 {
		return nil
	}
	text := fmt.Sprintf("stage %q: %d of %d experts of %s are of questions that %s does not hold, the first of question %q (%s)",
		c.Name, u.count, u.of, c.Experts.Handle, c.Train.Handle, u.first, u.place)
	if u.count == u.of {
		return fmt.Errorf("%s: no question has an expert; the ids of both must be the same", text)
	}
	r.warnings = append(r.warnings, text+"; they are not used")
	r.log.Warn(text)
	return r.sink.Log(r.state.Global, map[string]float64{"experts/unknown_questions": float64(u.count)})
}

// unknown counts experts of questions that are not trained on.
type unknown struct {
	count, of    int
	first, place string // the question of the first one, and where it stands
}

func unknownExperts(experts, train *dataset.Dataset) (unknown, error) {
	var u unknown
	if experts == train || train.Endless() {
		return u, nil
	}
	for i := range experts.Len() {
		expert, ok, err := experts.Expert(i)
		if err != nil {
			return u, err
		}
		if !ok {
			continue
		}
		q, err := experts.At(i)
		if err != nil {
			return u, err
		}
		u.of++
		if _, known := train.Find(q.ID); known {
			continue
		}
		if u.count++; u.count == 1 {
			u.first, u.place = q.ID, expert.Place
		}
	}
	return u, nil
}

func (s *stage) startPlugins(ctx context.Context) error {
	r := s.run
	if s.config.Reward != nil {
		s.scorer = &scorer{config: s.config.Reward}
		for _, source := range s.config.Reward.Sources {
			spec, err := r.resources.instance(ctx, fmt.Sprintf("stage.%s.reward.%s", s.config.Name, source.Name), source.Plugin)
			if err != nil {
				return err
			}
			reward, err := r.sup.Reward(ctx, spec, services{tools{r.resources}})
			if err != nil {
				return err
			}
			s.scorer.sources = append(s.scorer.sources, reward)
		}
	}
	spec, err := r.resources.instance(ctx, algorithmInstance(s.config.Name), s.config.Algorithm)
	if err != nil {
		return err
	}
	s.host = &algorithmHost{tools: tools{r.resources}}
	s.algorithm, err = r.sup.Algorithm(ctx, spec, s.host)
	return err
}

// begin puts policy, reference and optimizer into the state that the stage has at its present step.
func (s *stage) begin(ctx context.Context) error {
	r := s.run
	s.cursor.position = r.state.Cursor
	if r.state.Step == 0 {
		r.state.StageStart = r.state.Global
	}
	if s.reference {
		if err := s.takeReference(ctx, s.plan.Reference); err != nil {
			return fmt.Errorf("reference policy: %w", err)
		}
	}
	if s.produces() {
		if err := r.closeTrainers(); err != nil {
			return err
		}
		return s.resumeOrCheckpoint(ctx)
	}
	keep := s.config.OptimizerState == "keep" && r.trainer != nil && r.trainedBy == s.role()
	if !keep {
		if r.trainer != nil {
			if err := r.trainer.Close(); err != nil {
				return err
			}
		}
		var err error
		if r.trainer, err = policy.NewTrainer(s.model.Policy, optimizer(s.config)); err != nil {
			return err
		}
	} else if err := r.trainer.Reconfigure(optimizer(s.config)); err != nil {
		return err
	}
	s.trainer, r.trainedBy = r.trainer, s.role()
	if err := s.takeCritic(); err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	return s.resumeOrCheckpoint(ctx)
}

// produces says whether the stage writes artefacts in place of training.
func (s *stage) produces() bool { return len(s.config.Produce) > 0 }

// closeTrainers frees what a stage without updates has no use for.
func (r *runner) closeTrainers() error {
	var err error
	if r.trainer != nil {
		err = r.trainer.Close()
	}
	if r.critic != nil {
		err = errors.Join(err, r.critic.Close())
	}
	r.trainer, r.critic = nil, nil
	return err
}

func (s *stage) resumeOrCheckpoint(ctx context.Context) error {
	if s.run.resume != nil {
		return s.restore(ctx)
	}
	// The start of a stage is a checkpoint: the reference of the stage, and where a run goes on that dies in its
	// first steps.
	return s.checkpoint(ctx)
}

// train runs the stage's steps that are left, and moves on to the next stage.
func (s *stage) train(ctx context.Context) error {
	r := s.run
	for r.state.Step < s.config.Steps && r.stopped == "" {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-r.Pause:
			if err := s.checkpoint(ctx); err != nil {
				return fmt.Errorf("stopping on request: %w", err) // without a checkpoint the run cannot go on: it failed
			}
			return ErrPaused
		default:
		}
		if err := s.step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", r.state.Step, err)
		}
	}
	if s.produces() {
		if err := s.finishArtefacts(); err != nil {
			return err
		}
	}
	s.warnOfSilence()
	r.state.Stage++
	r.state.Step, r.state.Cursor, r.state.Scored = 0, 0, nil
	if r.stopped != "" {
		r.state.StoppedBy = r.stopped
	}
	return s.checkpointFinal(ctx)
}

// warnOfSilence tells of reward sources that were 0 for all episodes of the stage, as those are that read what the
// questions do not have.
func (s *stage) warnOfSilence() {
	if s.produces() || s.config.Reward == nil {
		return
	}
	r := s.run
	for _, source := range s.config.Reward.Sources {
		for _, read := range sorted(r.state.Scored) {
			if name, _, _ := strings.Cut(read, "."); name == source.Name && !r.state.Scored[read] {
				r.state.Warnings = append(r.state.Warnings, fmt.Sprintf("stage %q: the reward %s was 0 for every episode; see whether these questions and episodes have what it reads: forage plugin describe reward/%s",
					s.config.Name, read, source.Plugin.Label))
			}
		}
	}
}

// noteScores remembers which reward sources, and which of their components that the total reads, have given anything.
// The value of a source is not missed where the total reads its components.
func (s *stage) noteScores(episodes []*rollout.Episode) {
	if s.config.Reward == nil {
		return
	}
	total := s.config.Reward.Total.Text()
	note := func(read string, gave bool) {
		if s.run.state.Scored == nil {
			s.run.state.Scored = map[string]bool{}
		}
		s.run.state.Scored[read] = s.run.state.Scored[read] || gave
	}
	for _, ep := range episodes {
		for name, leaf := range ep.Rewards.Leaves {
			if !strings.Contains(total, name+".components") {
				note(name, leaf.Value != 0 || slices.ContainsFunc(leaf.Turns, func(v float64) bool { return v != 0 }))
			}
			for component, v := range leaf.Components {
				if read := name + ".components[" + strconv.Quote(component) + "]"; strings.Contains(total, read) {
					note(read, v != 0)
				}
			}
		}
	}
}

// step carries one training step out and everything that is due after it.
func (s *stage) step(ctx context.Context) error {
	r := s.run
	began := time.Now()
	transport := r.transport()
	st, req, err := s.newStep(r.state.Step)
	if err != nil {
		return err
	}
	s.host.enter(st)
	resp, err := s.algorithm.Step(ctx, req)
	s.host.enter(nil)
	if err != nil {
		return err
	}
	if s.produces() && len(resp.Updates) > 0 {
		return fmt.Errorf("algorithm %q sends updates in a stage that produces artefacts, which trains nothing: %w", s.config.Algorithm.Label, sdk.ErrInvalidRequest)
	}
	if err := s.takeArtefacts(st, resp.Artefacts); err != nil {
		return err
	}
	if err := st.checkUsed(resp.UsedRewards); err != nil {
		return fmt.Errorf("algorithm %q reports %w", s.config.Algorithm.Label, err)
	}
	values := map[string]float64{}
	training := time.Now()
	for i, u := range resp.Updates {
		if st.skips(u) {
			continue
		}
		m, err := st.update(ctx, i, u)
		if err != nil {
			return fmt.Errorf("algorithm %q: %w", s.config.Algorithm.Label, err)
		}
		s.logUpdate(values, u, m)
	}
	values["time/training"] = time.Since(training).Seconds()
	values["time/sampling"] = (st.sampling - st.scoring).Seconds()
	values["sampling/read_tokens"] = float64(st.read)
	values["sampling/written_tokens"] = float64(st.wrote)
	values["time/scoring"] = st.scoring.Seconds()
	maps.Copy(values, st.metrics)
	maps.Copy(values, resp.Metrics)
	if err := s.account(st, resp, values); err != nil {
		return err
	}
	values["time/transport"] = (r.transport() - transport).Seconds()
	values["time/step"] = time.Since(began).Seconds()

	r.state.Step++
	r.state.Global++
	r.state.Cursor = s.cursor.position
	r.state.Budgets.DecodedTokens = r.decoded.Load()
	if err := r.sink.Log(r.state.Global, values); err != nil {
		return err
	}
	if r.Progress != nil {
		r.Progress(Progress{Phase: "training", Stage: s.config.Name, Step: r.state.Global, Of: r.steps(), Metrics: values})
	}
	return s.after(ctx, values)
}

// mostUnsaved is how much work a run without a cadence of its own may lose.
const mostUnsaved = 10 * time.Minute

// after does what is due after a step: guards, evaluations, a checkpoint.
func (s *stage) after(ctx context.Context, values map[string]float64) error {
	r := s.run
	due, err := r.guards(s.config.Name, values)
	if err != nil {
		return err
	}
	if !s.produces() { // else the weights are those of the stage's start
		if err := r.evaluateDue(ctx); err != nil {
			return err
		}
	}
	every := r.config.Checkpoint.Every
	if every > 0 && r.state.Global%every == 0 || every == 0 && time.Since(r.saved) > mostUnsaved {
		due = due || r.state.Step < s.config.Steps
	}
	if due || r.state.BestStep == r.state.Global && r.state.BestStep > 0 {
		return s.checkpoint(ctx)
	}
	return nil
}

// logUpdate records what an update did.
func (s *stage) logUpdate(values map[string]float64, u sdk.Update, m policy.UpdateMetrics) {
	prefix := "train/" + u.Objective + "/"
	values[prefix+"loss"] = m.Loss
	values[prefix+"grad_norm"] = m.GradNorm
	values[prefix+"learning_rate"] = m.LearningRate
	values[prefix+"optimizer_steps"] = float64(m.Steps)
	values[prefix+"trained_tokens"] = float64(m.TrainedTokens)
	if m.SkippedRows > 0 {
		values[prefix+"skipped_rows"] = float64(m.SkippedRows)
	}
	if m.EmptySteps > 0 {
		values[prefix+"empty_steps"] = float64(m.EmptySteps)
	}
	for name, v := range m.Metrics {
		values[prefix+name] = v
	}
	s.run.state.Budgets.TrainedTokens += int64(m.TrainedTokens)
	s.run.state.Budgets.OptimizerSteps += int64(m.Steps)
}

// account records the step's episodes: their means, the budgets, the files.
func (s *stage) account(st *step, resp sdk.StepResponse, values map[string]float64) error {
	r := s.run
	episodes := st.sampled()
	measured, err := episodeMetrics(st, resp)
	if err != nil {
		return err
	}
	maps.Copy(values, measured)
	s.noteScores(episodes)
	for _, ep := range episodes {
		fresh := ep.Counters.PolicyTokens
		if ep.Parent != nil {
			fresh -= inherited(ep)
		}
		r.state.Budgets.SampledTokens += int64(fresh)
		r.state.Budgets.ToolCalls += int64(calls(ep))
	}
	digest, err := writeEpisodes(r.attempt.EpisodesDir(), r.state.Global+1, s.config.Name, episodes, resp.UsedRewards, func(id string) (policy, agent string) {
		if by := st.made[id]; by.model != s.model {
			return by.policy, by.agent
		}
		return "", st.made[id].agent
	})
	if err != nil {
		return err
	}
	r.state.EpisodesDigest = chain(r.state.EpisodesDigest, digest)
	return nil
}

// inherited counts the policy tokens that a continued episode took over.
func inherited(ep *rollout.Episode) int {
	n := 0
	for _, t := range ep.Turns[:ep.Parent.AfterTurn+1] {
		n += t.Span.Len()
	}
	return n
}

// calls counts the tool calls that an episode carried out itself: those of turns that it took over from another were
// counted there.
func calls(ep *rollout.Episode) int {
	own := ep.Turns
	if ep.Parent != nil {
		own = own[ep.Parent.AfterTurn+1:]
	}
	n := 0
	for _, t := range own {
		if t.Executed && t.Action == episode.ActionCall {
			n++
		}
	}
	return n
}

// transport is the time that a step has waited so far for calls to plugins beyond the work of either side. Rewards are
// asked at the same time, so the slowest of them counts.
func (r *runner) transport() time.Duration {
	var total, rewards time.Duration
	for _, s := range r.sup.Stats() {
		if s.Kind == sdk.KindReward {
			rewards = max(rewards, s.Transport)
		} else {
			total += s.Transport
		}
	}
	return total + rewards
}

// guards evaluates the guards on a step's metrics and says whether one asks for a checkpoint.
func (r *runner) guards(stage string, values map[string]float64) (bool, error) {
	due := false
	r.measured = sorted(values)
	for _, g := range r.config.Guards {
		missing := slices.ContainsFunc(g.When.Keys("metrics"), func(key string) bool { _, ok := values[key]; return !ok })
		if missing {
			continue // this step did not measure it
		}
		if !slices.Contains(r.state.Watched, g.Name) {
			r.state.Watched = append(r.state.Watched, g.Name)
		}
		hit, err := g.When.Bool(map[string]any{"metrics": values, "step": r.state.Global, "stage": stage})
		if err != nil {
			return false, fmt.Errorf("guard %q: %w", g.Name, err)
		}
		if !hit {
			continue
		}
		text := fmt.Sprintf("guard %q at step %d: %s", g.Name, r.state.Global, g.When.Text())
		switch g.Action {
		case "stop":
			r.stopped = g.Name
			r.state.Warnings = append(r.state.Warnings, text+"; the training was stopped")
			due = true
		case "checkpoint":
			due = true
		default:
			if !slices.Contains(r.state.Warned, g.Name) {
				r.state.Warnings = append(r.state.Warnings, text)
				r.state.Warned = append(r.state.Warned, g.Name)
			}
		}
		r.log.Warn(text)
	}
	return due, nil
}

// unwatched tells of guards that never looked, because no step measured what they read.
func (r *runner) unwatched() (warnings []string) {
	if len(r.config.Stages) == 0 {
		return nil
	}
	for _, g := range r.config.Guards {
		if slices.Contains(r.state.Watched, g.Name) {
			continue
		}
		var hints string
		for _, key := range g.When.Keys("metrics") {
			if near := suggest.Nearest(key, r.measured); near != "" && near != key {
				hints += fmt.Sprintf("; did you mean %q?", near)
			}
		}
		warnings = append(warnings, fmt.Sprintf("guard %q (%s:%d) never looked: no step measured all of %s%s", g.Name, g.Range.Filename, g.Range.Start.Line, strings.Join(g.When.Keys("metrics"), ", "), hints))
	}
	return warnings
}

func optimizer(c *experiment.Stage) policy.OptimizerConfig {
	return optimizerConfig(c.Optimizer, c.Schedule, c.Steps)
}

func optimizerConfig(o experiment.Optimizer, sch experiment.Schedule, steps int) policy.OptimizerConfig {
	return policy.OptimizerConfig{
		LearningRate: o.LearningRate, Beta1: o.Betas[0], Beta2: o.Betas[1], Epsilon: o.Eps, WeightDecay: o.WeightDecay, ClipNorm: o.ClipNorm,
		Schedule: policy.Schedule{Kind: sch.Kind, Warmup: sch.Warmup, Total: steps, Final: sch.Final, FirstAtZero: sch.FromZero, AfterWarmup: sch.AfterWarmup},
	}
}

// checkpointFinal closes a stage with a checkpoint of the state after it.
func (s *stage) checkpointFinal(ctx context.Context) error {
	if s.run.state.Stage < len(s.run.config.Stages) && s.run.state.StoppedBy == "" {
		return nil // the next stage begins with one
	}
	return s.checkpoint(ctx)
}
