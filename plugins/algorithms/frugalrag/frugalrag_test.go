package frugalrag

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

func TestVectorAdvantages(t *testing.T) {
	f := vectors.Load(t, "frugalrag", "grpo_advantage")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Rewards []float64
			Size    int `json:"group_size"`
		}](t, c.Input)
		var got []float64
		for group := range slices.Chunk(in.Rewards, in.Size) {
			got = append(got, grpo.Standardise(group, true, 1e-4)...)
		}
		want := make([]float64, len(in.Rewards)) // a group of one: upstream is not a number, ours 0
		if in.Size > 1 {
			want = vectors.Decode[struct{ Advantages []float64 }](t, c.Want()).Advantages
		}
		for i := range want {
			if !f.Tolerance.Close(got[i], want[i]) {
				t.Errorf("%s: advantage %d is %v, want %v", c.ID, i, got[i], want[i])
			}
		}
	}
}

func TestAdvantageProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		rewards := make([]float64, 2+rng.IntN(9))
		for i := range rewards {
			rewards[i] = rng.NormFloat64() * 2
		}
		a := grpo.Standardise(rewards, true, 1e-4)
		order := rng.Perm(len(rewards))
		moved, scaled := make([]float64, len(rewards)), make([]float64, len(rewards))
		sum := 0.
		for i, j := range order {
			moved[i], scaled[i] = rewards[j], 10*rewards[i]
			sum += a[i]
		}
		if math.Abs(sum) > 1e-9 {
			t.Fatalf("advantages of %v sum to %v", rewards, sum)
		}
		for i, v := range grpo.Standardise(moved, true, 1e-4) {
			if math.Abs(v-a[order[i]]) > 1e-9 {
				t.Fatalf("order matters: %v", rewards)
			}
		}
		for i, v := range grpo.Standardise(scaled, true, 0) {
			if math.Abs(v-grpo.Standardise(rewards, true, 0)[i]) > 1e-9 {
				t.Fatalf("scale matters: %v", rewards)
			}
		}
	}
}

// sequence is a hop in which the policy wrote n tokens.
func sequence(n int) episode.Sequence {
	return episode.Sequence{PromptLength: 2, Length: 2 + n, Segments: []episode.Segment{{Kind: episode.Policy, Start: 2, End: 2 + n}}}
}

// TestLossByHand: two episodes, of hops of 2 and 1 tokens and of 4 tokens. The loss is the mean over the 6 tokens of the
// first hop plus that over the 1 token of the second.
func TestLossByHand(t *testing.T) {
	c := Config{ClipLow: .2, ClipHigh: .2, KL: KL{Kind: "k1", Coefficient: .1}, AdvantageEpsilon: 1e-4}
	groups := []grpo.Group{{Name: "g", Rewards: []float64{3, 1}, Episodes: []episode.Episode{
		{ID: "a", Sequences: []episode.Sequence{sequence(2), sequence(1)}}, {ID: "b", Sequences: []episode.Sequence{sequence(4), {PromptLength: 3, Length: 3}}},
	}}}
	samples := weigh(c.hops(groups), 0)
	if len(samples) != 3 || samples[1].Sequence != 1 || samples[2].EpisodeID != "b" {
		t.Fatalf("samples %+v", samples)
	}
	o, err := Objective(c)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]objective.Row, len(samples))
	lengths := []int{2, 1, 4}
	for i, s := range samples {
		r := objective.Row{SequenceFields: s.SequenceFields, Group: s.Group}
		for range lengths[i] {
			r.LogP, r.OldLogP, r.RefLogP, r.Entropy = append(r.LogP, -1), append(r.OldLogP, -1), append(r.RefLogP, -3), append(r.Entropy, 1)
			r.PolicyMask = append(r.PolicyMask, true)
		}
		rows[i] = r
	}
	got, err := objective.Eval(o, objective.Batch{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	// Advantages are 1 and -1, every ratio is 1 and every k1 is 2.
	want := (2*-1.+4*1)/6 + -1. + .1*2*2
	if math.Abs(got.Loss-want) > 1e-12 || math.Abs(got.Metrics["kl"]-4) > 1e-12 {
		t.Errorf("loss %v, divergence %v, want %v, 4", got.Loss, got.Metrics["kl"], want)
	}
	if g := got.GradLogP[1][0]; math.Abs(g-(-1+.1)) > 1e-12 {
		t.Errorf("gradient %v", g)
	}
}

// TestWeightsOfMiniBatches: in each mini-batch the weights of the tokens of a hop sum to 1.
func TestWeightsOfMiniBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var hops []hop
		episodes := 1 + rng.IntN(9)
		for e := range episodes {
			for k := range 1 + rng.IntN(4) {
				hops = append(hops, hop{sdk.Sample{EpisodeID: fmt.Sprint(e), Sequence: k, SequenceFields: map[string]float64{}}, 1 + rng.IntN(5)})
			}
		}
		per := rng.IntN(5)
		batches := map[[2]int]float64{}
		for i, s := range weigh(hops, per) {
			batch, e := 0, 0
			fmt.Sscan(s.EpisodeID, &e)
			if per > 0 {
				batch = e / per
			}
			batches[[2]int{batch, s.Sequence}] += s.SequenceFields[weightField] * float64(hops[i].tokens)
		}
		for key, sum := range batches {
			if math.Abs(sum-1) > 1e-12 {
				t.Fatalf("mini-batch and hop %v: weights sum to %v", key, sum)
			}
		}
	}
}

// library answers with scripted hops: what each agent finds, by question and hop.
type library struct {
	sdk.Host
	script   map[string][]string // agent -> per hop: a gold title, "finish", "error" or "nothing"
	episodes map[string]episode.Episode
	asked    []sdk.RolloutRequest
}

func (l *library) Rollout(_ context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	var out []sdk.RolloutResponse
	for _, r := range requests {
		l.asked = append(l.asked, r)
		answer := sdk.RolloutResponse{RequestID: r.RequestID}
		for range r.N {
			e := episode.Episode{QuestionID: r.QuestionID, Turns: []episode.Turn{{Action: episode.ActionCall, Executed: true}}}
			if r.From != nil {
				e = l.episodes[r.From.EpisodeID]
				e.Turns = slices.Clone(e.Turns[:r.From.AfterTurn+1])
			}
			script := l.script[r.Agent]
			for r.MaxNewTurns == 0 || len(e.Turns) < 2 || r.From != nil && len(e.Turns) == r.From.AfterTurn+1 {
				h := len(e.Turns) - 1
				if h == len(script) {
					break
				}
				t := episode.Turn{Action: episode.ActionCall, Executed: true, Sequence: h, Span: episode.Span{Start: 1, End: 2}}
				switch script[h] {
				case "finish":
					t.Action = episode.ActionAnswer
				case "error":
					t.Error = "failed"
				case "nothing":
				default:
					t.Hits = []episode.Hit{{Title: script[h]}}
				}
				e.Turns = append(e.Turns, t)
			}
			e.Counters.Searches = len(e.Turns)
			e.ID = fmt.Sprint("e", len(l.episodes))
			e.Rewards.Leaves = map[string]episode.Leaf{"efficiency": {Components: map[string]float64{"recall": .25, "support_f1": .5}}}
			l.episodes[e.ID] = e
			answer.Episodes = append(answer.Episodes, e)
		}
		out = append(out, answer)
	}
	return out, nil
}

func open(t *testing.T, script map[string][]string, values map[string]any) (sdk.Algorithm, *library) {
	t.Helper()
	host := &library{script: script, episodes: map[string]episode.Episode{}}
	a, err := Plugin().New(t.Context(), values, host)
	if err != nil {
		t.Fatal(err)
	}
	return a, host
}

func question(id string) episode.Question {
	return episode.Question{ID: id, Gold: []episode.Gold{{Title: "g1"}, {Title: "g2"}, {Title: "g3"}}}
}

func titles(e episode.Episode) (list []string) {
	for _, turn := range e.Turns[1:] {
		switch {
		case turn.Action == episode.ActionAnswer:
			list = append(list, "finish")
		case turn.Error != "":
			list = append(list, "error")
		case len(turn.Hits) == 0:
			list = append(list, "nothing")
		default:
			list = append(list, turn.Hits[0].Title)
		}
	}
	return list
}

func TestExplore(t *testing.T) {
	for name, test := range map[string]struct {
		script map[string][]string
		values map[string]any
		want   []string
	}{
		"the best of each hop, the first of equals": {
			map[string][]string{"a": {"nothing", "g1", "x", "g3", "x"}, "b": {"g1", "g2", "y", "z", "finish"}},
			map[string]any{"no_finish_ratio": 0.}, []string{"g1", "g2", "x", "g3", "x"},
		},
		"finish only when all finish or fail": {
			map[string][]string{"a": {"g1", "finish", "finish"}, "b": {"error", "g2", "error"}},
			map[string]any{"no_finish_ratio": 0.}, []string{"g1", "g2", "finish"},
		},
		"an error is gone on from": {
			map[string][]string{"a": {"error", "g1", "finish"}, "b": {"error", "finish", "finish"}},
			map[string]any{"no_finish_ratio": 0.}, []string{"error", "g1", "finish"},
		},
		"hops": {
			map[string][]string{"a": {"g1", "x", "y"}, "b": {"g2", "g2", "z"}},
			map[string]any{"no_finish_ratio": 0., "max_iters": 2.}, []string{"g1", "g2"},
		},
		"without finishing": {
			map[string][]string{"c": {"g1", "nothing", "g3"}},
			map[string]any{"no_finish_ratio": 1.}, []string{"g1", "nothing", "g3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"phase": "explore", "agents": []any{"a", "b"}, "agents_no_finish": []any{"c"}}
			for k, v := range test.values {
				values[k] = v
			}
			a, host := open(t, test.script, values)
			out, err := a.Step(t.Context(), sdk.StepRequest{Questions: []episode.Question{question("p"), question("q")}})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Artefacts) != 1 || out.Artefacts[0].Name != "hops" || len(out.Artefacts[0].EpisodeIDs) != 2 || len(out.Updates) != 0 {
				t.Fatalf("got %+v", out)
			}
			for i, id := range out.Artefacts[0].EpisodeIDs {
				e := host.episodes[id]
				if got := titles(e); !slices.Equal(got, test.want) || e.QuestionID != []string{"p", "q"}[i] {
					t.Errorf("chose %v of %s, want %v", got, e.QuestionID, test.want)
				}
			}
			for _, r := range host.asked {
				if r.MaxNewTurns != 1 {
					t.Errorf("request %+v", r)
				}
			}
		})
	}
}

func TestMix(t *testing.T) {
	c := Config{NoFinishRatio: .9, MixSeed: 663}
	n := 0
	for i := range 2000 {
		if c.withoutFinish(fmt.Sprint("q", i)) {
			n++
		}
	}
	if n < 1740 || n > 1860 {
		t.Errorf("%d of 2000 without finishing", n)
	}
	other := Config{NoFinishRatio: .9, MixSeed: 1}
	same := 0
	for i := range 2000 {
		if c.withoutFinish(fmt.Sprint("q", i)) == other.withoutFinish(fmt.Sprint("q", i)) {
			same++
		}
	}
	if same > 1750 {
		t.Errorf("another seed draws %d of 2000 alike", same)
	}
}

func TestTau(t *testing.T) {
	for source, want := range map[string]map[string]any{
		"":           {"tau_recall": 2. / 3},
		"efficiency": {"tau_recall": .25, "tau_support_f1": .5},
	} {
		a, _ := open(t, map[string][]string{"": {"g1", "x", "g2"}}, map[string]any{"phase": "tau", "samples": 2., "recall_source": source})
		out, err := a.Step(t.Context(), sdk.StepRequest{Questions: []episode.Question{question("p")}})
		if err != nil {
			t.Fatal(err)
		}
		got := out.Artefacts[0].ByQuestion["p"]
		if out.Artefacts[0].Name != "tau" || len(got) != len(want) {
			t.Errorf("got %+v", out)
		}
		for k, v := range want {
			if g, ok := got[k].(float64); !ok || math.Abs(g-v.(float64)) > 1e-12 {
				t.Errorf("%s is %v, want %v", k, got[k], v)
			}
		}
	}
	a, _ := open(t, map[string][]string{"": {"g1"}}, map[string]any{"phase": "tau", "recall_source": "other"})
	if _, err := a.Step(t.Context(), sdk.StepRequest{Questions: []episode.Question{question("p")}}); err == nil || !strings.Contains(err.Error(), "no source of that name") {
		t.Errorf("got %v", err)
	}
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		values    map[string]any
		produce   bool
		problem   string
		reference string
	}{
		{nil, false, "", sdk.ReferenceStageStart},
		{map[string]any{"kl": map[string]any{"coefficient": 0.}}, false, "", ""},
		{nil, true, "makes no updates", ""},
		{map[string]any{"phase": "tau"}, true, "", ""},
		{map[string]any{"phase": "tau"}, false, "set produce", ""},
	} {
		a, _ := open(t, nil, test.values)
		plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "s", Produce: test.produce})
		switch {
		case test.problem == "" && err != nil, test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
			t.Errorf("%+v: %v", test, err)
		case err == nil && plan.Reference != test.reference || err == nil && test.produce == (len(plan.Objectives) > 0):
			t.Errorf("%+v: %+v", test, plan)
		}
	}
	if ds := Plugin().Validate(map[string]any{"phase": "explore"}); !ds.HasErrors() || ds[0].Path.String() != "agents_no_finish" {
		t.Errorf("got %v", ds)
	}
}
