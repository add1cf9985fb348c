package treegrpo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// policyEpisode is an episode whose response is n tokens of the policy.
func policyEpisode(id string, n int) episode.Episode {
	return episode.Episode{ID: id, Sequences: []episode.Sequence{{
		PromptLength: 1, Length: 1 + n, Segments: []episode.Segment{{Kind: episode.Policy, Start: 1, End: 1 + n}},
	}}}
}

// The advantages of the paper's example: a winner in one of two trees.
func TestAdvantagesByHand(t *testing.T) {
	rewards := []float64{1, .2, .2, .2, .2, .2}
	leaves := []Leaf{{0, 0}, {0, 0}, {0, 0}, {0, 1}, {0, 1}, {0, 1}}
	for estimator, want := range map[string][]float64{
		"inter": {2.04124, -.40825, -.40825, -.40825, -.40825, -.40825},
		"intra": {1.15470, -.57735, -.57735, 0, 0, 0},
		"tree":  {3.19593, -.98560, -.98560, -.40825, -.40825, -.40825},
		"rloo":  {.8, -.16, -.16, -.16, -.16, -.16},
	} {
		for i, got := range Advantages(estimator, rewards, leaves) {
			if math.Abs(got-want[i]) > 1e-5 {
				t.Errorf("%s[%d] = %v, want %v", estimator, i, got, want[i])
			}
		}
	}
	// Alone in its tree, and alone in its question.
	for i, want := range []float64{0, 0} {
		if got := Advantages("tree", []float64{.8, .1}, []Leaf{{0, 0}, {1, 1}})[i]; got != want {
			t.Errorf("a leaf alone has advantage %v", got)
		}
	}
}

func TestAdvantageProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var leaves []Leaf
		var rewards []float64
		tree := 0
		for q := range 1 + r.IntN(3) {
			for range 1 + r.IntN(3) {
				for range 1 + r.IntN(4) {
					leaves, rewards = append(leaves, Leaf{q, tree}), append(rewards, []float64{0, .1, .2, .8, 1}[r.IntN(5)])
				}
				tree++
			}
		}
		for _, estimator := range []string{"tree", "inter", "intra"} {
			got := Advantages(estimator, rewards, leaves)
			perQuestion, perTree := map[int]float64{}, map[int]float64{}
			for i, a := range got {
				perQuestion[leaves[i].Question] += a
				perTree[leaves[i].Tree] += a
			}
			sums := perQuestion
			if estimator == "intra" {
				sums = perTree
			}
			for key, sum := range sums {
				if math.Abs(sum) > 1e-9 {
					t.Fatalf("%s: the advantages of group %d sum to %v", estimator, key, sum)
				}
			}
			// Another order of the leaves gives the same advantages in that order.
			order := r.Perm(len(leaves))
			mixedLeaves, mixedRewards := make([]Leaf, len(order)), make([]float64, len(order))
			scaled := make([]float64, len(order))
			for to, from := range order {
				mixedLeaves[to], mixedRewards[to] = leaves[from], rewards[from]
				scaled[from] = 3*rewards[from] - 2
			}
			for to, a := range Advantages(estimator, mixedRewards, mixedLeaves) {
				if math.Abs(a-got[order[to]]) > 1e-9 {
					t.Fatalf("%s: a permutation changes an advantage from %v to %v", estimator, got[order[to]], a)
				}
			}
			// A positive multiple of the rewards, shifted, gives the same up to epsilon.
			for i, a := range Advantages(estimator, scaled, leaves) {
				if math.Abs(a-got[i]) > 1e-4 {
					t.Fatalf("%s: scaled rewards change an advantage from %v to %v", estimator, got[i], a)
				}
			}
		}
	}
}

func TestChainsOfThePaper(t *testing.T) {
	for shape, want := range map[[3]int]float64{{1, 2, 1}: 2, {2, 2, 1}: 4, {2, 6, 1}: 8, {4, 5, 1}: 14} {
		if got := Chains(shape[0], shape[1], shape[2]); got != want {
			t.Errorf("M, N, L = %v cost %v chains, want %v", shape, got, want)
		}
	}
}

// recorder notes what the algorithm asks for.
type recorder struct {
	*sdktest.Host
	batches [][]sdk.RolloutRequest
	known   map[string]episode.Episode
}

func (h *recorder) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	h.batches = append(h.batches, requests)
	out, err := h.Host.Rollout(ctx, requests)
	for _, r := range out {
		for _, e := range r.Episodes {
			h.known[e.ID] = e
		}
	}
	return out, err
}

func start(t *testing.T, values map[string]any) (algorithm, *recorder) {
	t.Helper()
	host := &recorder{Host: &sdktest.Host{}, known: map[string]episode.Episode{}}
	a, err := Plugin().New(t.Context(), values, host)
	if err != nil {
		t.Fatal(err)
	}
	return a.(algorithm), host
}

func TestTreesGrow(t *testing.T) {
	a, host := start(t, map[string]any{"trees": 2, "expansions": 3, "rounds": 2, "leaves": 4})
	req := sdk.StepRequest{Questions: sdktest.Questions(), Seed: 7}
	forests, err := a.grow(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(host.batches) != 3 || len(host.batches[0]) != 4 || len(host.batches[1]) != 24 || len(host.batches[2]) != 24 {
		t.Fatalf("%d batches of requests", len(host.batches))
	}
	for round, batch := range host.batches {
		for _, r := range batch {
			if r.Keep != (round < 2) {
				t.Errorf("request %s of round %d: keep is %v", r.RequestID, round, r.Keep)
			}
		}
	}
	deep := 0
	for _, f := range forests {
		for _, tree := range f.trees {
			if n := len(tree.Leaves()); n != 7 {
				t.Errorf("a tree of %d leaves, want 7", n)
			}
			for n, at := range tree.branches {
				e := host.known[at.EpisodeID]
				if n > 0 && e.QuestionID != f.question.ID {
					t.Errorf("node %d belongs to question %s, its tree to %s", n, e.QuestionID, f.question.ID)
				}
				if !tree.nodes[n].leaf && at.AfterTurn >= len(e.Turns)-1 {
					t.Errorf("a branch would start after the last turn of %s", at.EpisodeID)
				}
			}
			// Paths from the root are as long as their episodes.
			for n, e := range tree.episodes {
				depth := 0
				for m := n; m > 0; m = tree.nodes[m].parent {
					depth++
				}
				if depth != len(e.Turns) {
					t.Errorf("leaf %s at depth %d has %d turns", e.ID, depth, len(e.Turns))
				}
				if e.Parent != nil && host.known[e.Parent.EpisodeID].Parent != nil {
					deep++
				}
			}
		}
	}
	if deep == 0 {
		t.Error("the second round grew nothing from what the first one grew")
	}
}

// Draws depend on the seed of the step and on the question, and on nothing else.
func TestDrawsAreKeyed(t *testing.T) {
	drawn := func(seed uint64, questions []episode.Question) map[string][]string {
		a, host := start(t, map[string]any{"trees": 3, "expansions": 4, "leaves": 2})
		if _, err := a.Step(t.Context(), sdk.StepRequest{Questions: questions, Seed: seed}); err != nil {
			t.Fatal(err)
		}
		out := map[string][]string{}
		for _, r := range host.batches[1] {
			out[r.QuestionID] = append(out[r.QuestionID], fmt.Sprint(*r.From))
		}
		return out
	}
	questions := sdktest.Questions()
	all := drawn(1, questions)
	if slices.Equal(all["q0"], drawn(2, questions)["q0"]) && slices.Equal(all["q1"], drawn(2, questions)["q1"]) {
		t.Error("another seed draws the same")
	}
	if alone := drawn(1, questions[2:3]); !slices.Equal(alone["q2"], all["q2"]) {
		t.Errorf("alone in its step a question draws %v, among others %v", alone["q2"], all["q2"])
	}
}

// Nodes are drawn uniformly and with replacement.
func TestDrawsAreUniform(t *testing.T) {
	a, host := start(t, map[string]any{"trees": 1, "expansions": 2, "leaves": 1})
	q := sdktest.Questions()[2]
	host.Sample = func(_ *sdktest.Host, _ sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
		b := sdktest.NewEpisode(fmt.Sprintf("%s-%d", q.ID, n), q)
		for range 3 {
			b.Search("thought", "query")
		}
		return b.Answer("x").Episode()
	}
	counts, twice := map[int]float64{}, 0.
	const steps = 2000
	for seed := range uint64(steps) {
		host.Host = &sdktest.Host{Sample: host.Sample}
		host.batches = nil
		if _, err := a.grow(t.Context(), sdk.StepRequest{Questions: []episode.Question{q}, Seed: seed}); err != nil {
			t.Fatal(err)
		}
		first, second := host.batches[1][0].From.AfterTurn, host.batches[1][1].From.AfterTurn
		counts[first]++
		counts[second]++
		if first == second {
			twice++
		}
	}
	chi := 0.
	for turn := -1; turn < 3; turn++ {
		chi += math.Pow(counts[turn]-steps/2, 2) / (steps / 2)
	}
	// Three degrees of freedom: above 16.3 once in a thousand.
	if len(counts) != 4 || chi > 16.3 {
		t.Errorf("nodes drawn %v times: chi-square %v", counts, chi)
	}
	if math.Abs(twice/steps-.25) > .04 {
		t.Errorf("the same node twice in a share of %v, want 0.25", twice/steps)
	}
}

func TestStep(t *testing.T) {
	a, host := start(t, map[string]any{"leaves": 2, "updates": 2})
	out, err := a.Step(t.Context(), sdk.StepRequest{Questions: sdktest.Questions(), Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	u := out.Updates[0]
	if len(u.Samples) != 16 || u.MiniBatch != (sdk.MiniBatch{Count: 2, Unit: sdk.UnitQuestion}) {
		t.Errorf("%d samples, mini-batch %+v", len(u.Samples), u.MiniBatch)
	}
	sums := map[string]float64{}
	for _, s := range u.Samples {
		sums[s.Group] += s.SequenceFields["advantage"]
	}
	for group, sum := range sums {
		if math.Abs(sum) > 1e-9 {
			t.Errorf("the advantages of %s sum to %v", group, sum)
		}
	}
	if len(sums) != 4 {
		t.Errorf("groups %v", sums)
	}
	// What was sampled, counted from the episodes that the host gave.
	fresh, taken, calls := 0, 0, 0
	for _, e := range host.known {
		for i, turn := range e.Turns {
			if e.Parent != nil && i <= e.Parent.AfterTurn {
				taken += turn.Span.Len()
				continue
			}
			fresh += turn.Span.Len()
			if turn.Action == episode.ActionCall {
				calls++
			}
		}
	}
	m := out.Metrics
	for name, want := range map[string]float64{
		"budget/tokens": float64(fresh) / 4, "budget/tool_calls": float64(calls) / 4, "budget/paper_chains": 4,
		"budget/shared_tokens": float64(taken) / float64(fresh+taken), "budget/chains": m["budget/tokens"] * 4 / m["budget/paper_tokens"],
	} {
		if math.Abs(m[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
}

// The estimators per token put the reward on the last token that the policy wrote.
func TestTokenAdvantages(t *testing.T) {
	e := episode.Episode{ID: "e", Rewards: episode.Rewards{Total: .8}, Sequences: []episode.Sequence{{PromptLength: 2, Length: 8, Segments: []episode.Segment{
		{Kind: episode.Policy, Start: 2, End: 4}, {Kind: episode.Observation, Start: 4, End: 5}, {Kind: episode.Policy, Start: 5, End: 6}, {Kind: episode.Notice, Start: 6, End: 8},
	}}}}
	c := Config{Advantage: noEstimator}
	samples := c.weigh(groupsOf(e), []episode.Episode{e}, []float64{.8}, []Leaf{{0, 0}})
	if got := samples[0].TokenFields["advantage"]; !slices.Equal(got, []float32{0, 0, 0, .8, 0, 0}) {
		t.Errorf("advantages %v", got)
	}
	// A sequence in which the policy wrote nothing is no sample, and its tokens keep their places.
	read := episode.Sequence{PromptLength: 1, Length: 4, Segments: []episode.Segment{{Kind: episode.Observation, Start: 1, End: 4}}}
	e.Sequences = append([]episode.Sequence{read}, e.Sequences...)
	samples = c.weigh(groupsOf(e), []episode.Episode{e}, []float64{.8}, []Leaf{{0, 0}})
	if got := samples[0]; len(samples) != 1 || got.Sequence != 1 || !slices.Equal(got.TokenFields["advantage"], []float32{0, 0, 0, .8, 0, 0}) {
		t.Errorf("after a sequence that is only read: %+v", samples)
	}
}

func TestStepWithoutQuestions(t *testing.T) {
	a, _ := start(t, nil)
	none, err := a.Step(t.Context(), sdk.StepRequest{})
	if err != nil || len(none.Updates) != 0 {
		t.Errorf("a step without questions: %v, %d updates", err, len(none.Updates))
	}
}

func TestPlan(t *testing.T) {
	a, _ := start(t, nil)
	plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Reference != sdk.ReferenceStageStart || plan.TrainsObservations || plan.Objectives[0].TrainsObservations() {
		t.Errorf("plan %+v", plan)
	}
	if !slices.Contains(plan.DefaultsNotInPaper, "dual_clip") || slices.Contains(plan.DefaultsNotInPaper, "trees") {
		t.Errorf("defaults %v", plan.DefaultsNotInPaper)
	}
	if _, err := a.Plan(t.Context(), sdk.PlanRequest{Produce: true}); !errors.Is(err, sdk.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
	if ds := Plugin().Validate(map[string]any{"leaves": 4}); !ds.HasErrors() || ds[0].Path.String() != "leaves" || !strings.Contains(ds.Err().Error(), "= 3 leaves") {
		t.Errorf("diagnostics %v", ds)
	}
	if ds := Plugin().Validate(map[string]any{"trees": 1}); ds.HasErrors() || len(ds) != 1 {
		t.Errorf("diagnostics %v", ds)
	}
}

func groupsOf(episodes ...episode.Episode) []grpo.Group {
	return []grpo.Group{{Name: "question-0", Episodes: episodes, Rewards: make([]float64, len(episodes))}}
}
