package sdktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/forage-rl/forage/core/internal/wire"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// AlgorithmCase is one configuration of an algorithm in one stage.
type AlgorithmCase struct {
	Name   string
	Values map[string]any
	// Stage to plan; its zero fields are filled in.
	Stage sdk.PlanRequest
	// NewHost makes a host that answers like the ones before. Nil means a [Host] with its usual script.
	NewHost func() sdk.Host
	// Questions of each step; nil means [Questions].
	Questions []episode.Question
	// Experts of each step. A host made by NewHost must know them; the usual one does.
	Experts []episode.Episode
	// Steps to run; 0 means 2.
	Steps int
}

// TestAlgorithm checks an algorithm with each case; without cases, with its defaults.
func TestAlgorithm(t *testing.T, plugin sdk.AlgorithmPlugin, cases ...AlgorithmCase) {
	t.Helper()
	if len(cases) == 0 {
		cases = []AlgorithmCase{{Name: "defaults"}}
	}
	testPlugin(t, sdk.Pack{Algorithms: []sdk.AlgorithmPlugin{plugin}}, sdk.KindAlgorithm, plugin.Plugin, cases[0].Values)
	for i, c := range cases {
		if c.Name == "" {
			c.Name = fmt.Sprint("case ", i)
		}
		t.Run(c.Name, func(t *testing.T) { testAlgorithmCase(t, plugin, c.withDefaults()) })
	}
}

func (c AlgorithmCase) withDefaults() AlgorithmCase {
	if c.Steps == 0 {
		c.Steps = 2
	}
	if c.Questions == nil {
		c.Questions = Questions()
	}
	if c.NewHost == nil {
		c.NewHost = func() sdk.Host {
			h := &Host{}
			h.Add(c.Experts...)
			return h
		}
	}
	if c.Stage.Stage == "" {
		c.Stage.Stage = "main"
	}
	if c.Stage.Steps == 0 {
		c.Stage.Steps = c.Steps
	}
	if c.Stage.Questions == 0 {
		c.Stage.Questions = len(c.Questions)
	}
	c.Stage.HasExperts = c.Stage.HasExperts || len(c.Experts) > 0
	return c
}

// witness notes the episodes that a host gave, to check what the algorithm makes of them.
type witness struct {
	sdk.Host
	mu       sync.Mutex
	episodes map[string]episode.Episode
}

func watch(host sdk.Host, known []episode.Episode) *witness {
	w := &witness{Host: host, episodes: map[string]episode.Episode{}}
	w.note(known)
	return w
}

func (w *witness) note(list []episode.Episode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range list {
		w.episodes[e.ID] = e
	}
}

func (w *witness) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	out, err := w.Host.Rollout(ctx, requests)
	for _, r := range out {
		w.note(r.Episodes)
	}
	return out, err
}

func (w *witness) nextStep() {
	if h, ok := w.Host.(interface{ nextStep() }); ok {
		h.nextStep()
	}
}

func (w *witness) Rerender(ctx context.Context, requests []sdk.RerenderRequest) ([]episode.Episode, error) {
	out, err := w.Host.Rerender(ctx, requests)
	w.note(out)
	return out, err
}

func (c AlgorithmCase) step(n int) sdk.StepRequest {
	return sdk.StepRequest{Step: n, Of: c.Steps, Seed: uint64(n), Questions: c.Questions, Experts: c.Experts}
}

func testAlgorithmCase(t *testing.T, plugin sdk.AlgorithmPlugin, c AlgorithmCase) {
	host := watch(c.NewHost(), c.Experts)
	a := Algorithm(t, plugin, c.Values, host)
	plan, err := a.Plan(t.Context(), c.Stage)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("plan", func(t *testing.T) {
		checkPlan(t, plan)
		if plan.Critic != nil && !slices.Contains(plugin.Uses(c.Values), sdk.UseCritic) {
			t.Errorf("the plan asks for a critic, and Uses does not have %q: validate would say that a block critic has no effect", sdk.UseCritic)
		}
		again, err := a.Plan(t.Context(), c.Stage)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "a repeated request has another plan", plan, again)
	})
	var first []sdk.StepResponse
	var states [][]byte
	for n := range c.Steps {
		out, err := a.Step(t.Context(), c.step(n))
		if err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		first = append(first, out)
		if a.Stateful() {
			state, err := a.Save(t.Context())
			if err != nil {
				t.Fatalf("save after step %d: %v", n, err)
			}
			states = append(states, state)
		}
	}
	t.Run("steps", func(t *testing.T) {
		for n, out := range first {
			checkStep(t, fmt.Sprintf("step %d", n), plan, host.episodes, out)
		}
	})
	t.Run("same again", func(t *testing.T) {
		b := Algorithm(t, plugin, c.Values, c.NewHost())
		if _, err := b.Plan(t.Context(), c.Stage); err != nil {
			t.Fatal(err)
		}
		for n, want := range first {
			out, err := b.Step(t.Context(), c.step(n))
			if err != nil {
				t.Fatalf("step %d: %v", n, err)
			}
			same(t, fmt.Sprintf("step %d of a second instance differs", n), want, out)
		}
	})
	t.Run("save and load", func(t *testing.T) {
		if !a.Stateful() {
			t.Skip("it keeps no state")
		}
		b := Algorithm(t, plugin, c.Values, host)
		if _, err := b.Plan(t.Context(), c.Stage); err != nil {
			t.Fatal(err)
		}
		for _, state := range states {
			if err := b.Load(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			again, err := b.Save(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the state changes by load and save", state, again)
		}
		if err := b.Load(t.Context(), []byte("\xffno state of anything")); errors.Is(err, wire.ErrPanic) {
			t.Errorf("a broken state: %v", err)
		}
	})
	t.Run("question twice", func(t *testing.T) { // as where a step goes over the end of the training set
		if len(c.Questions) == 0 {
			t.Skip("the case has no questions")
		}
		host := watch(c.NewHost(), c.Experts)
		b := Algorithm(t, plugin, c.Values, host)
		plan, err := b.Plan(t.Context(), c.Stage)
		if err != nil {
			t.Fatal(err)
		}
		req := c.step(0)
		req.Questions = append(slices.Clone(req.Questions), req.Questions[0])
		out, err := b.Step(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		checkStep(t, "a step with a question twice", plan, host.episodes, out)
	})
	t.Run("no questions", func(t *testing.T) {
		b := Algorithm(t, plugin, c.Values, c.NewHost())
		if _, err := b.Plan(t.Context(), c.Stage); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Step(t.Context(), sdk.StepRequest{Of: c.Steps}); errors.Is(err, wire.ErrPanic) {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		direct, err := plugin.New(t.Context(), c.Values, c.NewHost())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := direct.Plan(t.Context(), c.Stage); err != nil {
			t.Fatal(err)
		}
		returns(t, func(ctx context.Context) error {
			_, err := direct.Step(ctx, c.step(0))
			return err
		})
	})
}

func checkPlan(t testing.TB, plan sdk.PlanResponse) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range plan.Objectives {
		if o.Name == "" || seen[o.Name] {
			t.Errorf("objective name %q is empty or taken", o.Name)
		}
		seen[o.Name] = true
		if _, err := o.Levels(); err != nil {
			t.Error(err)
		}
		if o.Trains == objective.TrainsPolicy && o.TrainsObservations() && !plan.TrainsObservations {
			t.Errorf("objective %q trains text that the policy did not write, and the plan does not declare TrainsObservations", o.Name)
		}
		if o.Uses(objective.OpRefLogP) && plan.Reference == "" {
			t.Errorf("objective %q reads ref_logp, and the plan names no reference", o.Name)
		}
		if (o.Trains == objective.TrainsCritic || o.Uses(objective.OpOldValue)) && plan.Critic == nil {
			t.Errorf("objective %q needs a critic, and the plan asks for none", o.Name)
		}
	}
	if !slices.Contains([]string{"", sdk.ReferenceStageStart, sdk.ReferenceBase}, plan.Reference) {
		t.Errorf("unknown reference %q", plan.Reference)
	}
}

func checkStep(t testing.TB, what string, plan sdk.PlanResponse, known map[string]episode.Episode, out sdk.StepResponse) {
	t.Helper()
	for name, v := range out.Metrics {
		finite(t, what+", metric "+name, v)
	}
	for id, u := range out.UsedRewards {
		if _, ok := known[id]; !ok {
			t.Errorf("%s: a used reward of the unknown episode %q", what, id)
		}
		finite(t, what+", used reward of "+id, append(slices.Clone(u.Turns), u.Value)...)
	}
	for _, a := range out.Artefacts {
		for _, id := range a.EpisodeIDs {
			if _, ok := known[id]; !ok {
				t.Errorf("%s: artefact %q holds the unknown episode %q", what, a.Name, id)
			}
		}
	}
	for i, u := range out.Updates {
		what := fmt.Sprintf("%s, update %d (%s)", what, i, u.Objective)
		n := slices.IndexFunc(plan.Objectives, func(o objective.Objective) bool { return o.Name == u.Objective })
		if n < 0 {
			t.Errorf("%s: the plan has no such objective", what)
			continue
		}
		if !slices.Contains([]string{"", sdk.OrderGiven, sdk.OrderShuffled}, u.Order) {
			t.Errorf("%s: unknown order %q", what, u.Order)
		}
		if m := u.MiniBatch; m.Count < 0 || m.Count > 0 && !slices.Contains([]string{sdk.UnitQuestion, sdk.UnitEpisode, sdk.UnitSequence}, m.Unit) {
			t.Errorf("%s: mini-batch %+v", what, m)
		}
		if u.Epochs < 0 || u.Temperature < 0 {
			t.Errorf("%s: %d epochs at temperature %v", what, u.Epochs, u.Temperature)
		}
		for _, s := range u.Samples {
			checkSample(t, what, plan.Objectives[n], known, s)
		}
	}
}

func checkSample(t testing.TB, what string, o objective.Objective, known map[string]episode.Episode, s sdk.Sample) {
	t.Helper()
	e, ok := known[s.EpisodeID]
	if !ok {
		t.Errorf("%s: unknown episode %q", what, s.EpisodeID)
		return
	}
	if s.Sequence < 0 || s.Sequence >= len(e.Sequences) {
		t.Errorf("%s: sequence %d of %q, which has %d", what, s.Sequence, s.EpisodeID, len(e.Sequences))
		return
	}
	length := e.Sequences[s.Sequence].ResponseLength()
	for name, values := range s.TokenFields {
		if len(values) != length {
			t.Errorf("%s: field %q of %q has %d numbers for a response of %d tokens", what, name, s.EpisodeID, len(values), length)
		}
		for _, v := range values {
			finite(t, what+", field "+name+" of "+s.EpisodeID, float64(v))
		}
	}
	for name, v := range s.SequenceFields {
		finite(t, what+", field "+name+" of "+s.EpisodeID, v)
	}
	for name, level := range o.Fields() {
		_, perToken := s.TokenFields[name]
		_, perSequence := s.SequenceFields[name]
		if level == objective.Token && !perToken || level == objective.Sequence && !perSequence {
			t.Errorf("%s: the sample of %q lacks the %s field %q that the objective reads", what, s.EpisodeID, level, name)
		}
	}
	if e.Origin != episode.OriginPolicy && o.Uses(objective.OpSamplerLogP) {
		t.Errorf("%s: %q is of origin %s and has no sampler log-probabilities, which the objective reads", what, s.EpisodeID, e.Origin)
	}
}
