package run

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/sdk"
)

// Preconditions looks at what runs depend on as it is now, before they are executed. What several runs share is read
// once. It is for one caller at a time.
type Preconditions struct {
	catalogue *host.Catalogue
	cacheDir  string
	backend   *policy.Backend
	digests   map[string]string // by kind, folder and canonical form of what is read
	plans     map[string]planned
}

type planned struct {
	plan sdk.PlanResponse
	err  error
}

// NewPreconditions prepares the look.
func NewPreconditions(catalogue *host.Catalogue, cacheDir string, backend *policy.Backend) *Preconditions {
	return &Preconditions{catalogue, cacheDir, backend, map[string]string{}, map[string]planned{}}
}

// Changes lists what a recorded run's training depends on and is no longer as the record says; nothing where the run
// has no record yet.
func (p *Preconditions) Changes(ctx context.Context, config *experiment.Run, dir record.Run) ([]record.Change, error) {
	before, ok, err := dir.ReadManifest()
	if err != nil || !ok {
		return nil, err
	}
	r := p.runner(config)
	now, err := p.manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	return r.stale(record.Diff(before, now)), nil
}

func (p *Preconditions) runner(config *experiment.Run) *runner {
	r := newRunner(Options{Config: config, Catalogue: p.catalogue, CacheDir: p.cacheDir, Backend: p.backend})
	r.readFrom(newResources(config, p.cacheDir, nil))
	return r
}

// manifest is what the run would write as its manifest now.
func (p *Preconditions) manifest(ctx context.Context, r *runner) (record.Manifest, error) {
	m := record.Manifest{Digests: map[string]string{}, Deterministic: r.deterministic()}
	note := func(name, kind string, what any, digest func() (string, error)) error {
		canonical, err := json.Marshal(what)
		if err != nil {
			return err
		}
		key := kind + "\x00" + r.config.Root + "\x00" + string(canonical)
		if _, ok := p.digests[key]; !ok {
			if p.digests[key], err = digest(); err != nil {
				delete(p.digests, key)
				return err
			}
		}
		m.Digests[name] = p.digests[key]
		return nil
	}
	for _, handle := range sorted(r.config.Indexes) {
		x := r.config.Indexes[handle]
		err := note(handle, "index", x, func() (string, error) {
			made, err := r.resources.index(ctx, handle)
			if err != nil {
				return "", err
			}
			return made.Digest(), nil
		})
		if err != nil {
			return m, err
		}
		err = note(x.Corpus.Handle, "corpus", x.Corpus, func() (string, error) {
			docs, err := r.resources.corpus(ctx, x.Corpus)
			if err != nil {
				return "", err
			}
			return docs.Digest(), nil
		})
		if err != nil {
			return m, err
		}
	}
	for _, d := range r.datasets() {
		err := note(d.Handle, "dataset", d, func() (string, error) {
			data, err := r.resources.openDataset(ctx, d, nil)
			if err != nil {
				return "", fmt.Errorf("%s: %w", at(d.Handle, d.Range), err)
			}
			return data.Digest(), nil
		})
		if err != nil {
			return m, err
		}
	}
	for _, name := range r.policyNames() {
		declared, err := r.declared(name)
		if err != nil {
			return m, err
		}
		err = note(precondition(name), "policy", declared, func() (string, error) {
			return r.weightsDigest(nil, name)
		})
		if err != nil {
			return m, err
		}
	}
	for _, plugin := range r.plugins() {
		m.Digests["plugin."+plugin.Info.Pack] = plugin.Info.Digest
	}
	var err error
	m.TrainsObservations, err = r.trainsObservations(func(st *experiment.Stage) (sdk.PlanResponse, error) {
		return p.Plan(ctx, r.config, st)
	})
	if err != nil {
		return m, err
	}
	describeBackend(&m, r.Backend.Describe())
	return m, note("core", "core", nil, selfDigest)
}

// datasets lists what the run reads questions from that it does not produce itself.
func (r *runner) datasets() []*experiment.Dataset {
	var list []*experiment.Dataset
	for _, s := range r.config.Stages {
		list = append(append(list, inputs(s.Train)...), inputs(s.Experts)...)
	}
	for _, e := range r.config.Evaluations {
		list = append(list, inputs(e.Dataset)...)
	}
	return compact(list)
}

// compact drops nil and repeated pointers.
func compact[T any](list []*T) []*T {
	seen := map[*T]bool{nil: true}
	var out []*T
	for _, p := range list {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// Plan asks the algorithm of a stage what it will do, and checks that it can be done.
func (p *Preconditions) Plan(ctx context.Context, config *experiment.Run, st *experiment.Stage) (sdk.PlanResponse, error) {
	key, err := json.Marshal([]any{st.Name, st.Algorithm, st.Steps, st.Questions, st.Experts != nil, len(st.Produce) > 0})
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	done, ok := p.plans[string(key)]
	if !ok {
		done.plan, done.err = p.runner(config).planStage(ctx, st)
		if ctx.Err() == nil {
			p.plans[string(key)] = done
		}
	}
	return done.plan, done.err
}
