package treegrpo

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

func TestVectorAdvantages(t *testing.T) {
	f := vectors.Load(t, "tree-grpo", "advantages")
	// The reference's names of the estimators. It has inter under the name grpo.
	names := map[string]string{
		"tree": "tree", "tree_inner": "intra", "tree_2norm": "tree_2norm", treePerToken: treePerToken, "rloo": "rloo",
		"grpo": "grpo", "no_estimator": noEstimator,
	}
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Rewards  [][]float64 `json:"token_level_rewards"`
			Mask     [][]int
			Question []any
			Tree     []any
		}](t, c.Input)
		question, tree := numbered(in.Question), numbered(in.Tree)
		// Where the case has what ours must give, it holds only the estimators that differ.
		all, ours := vectors.Decode[map[string][][]float64](t, c.Expected), vectors.Decode[map[string][][]float64](t, c.Want())
		leaves, rewards, masked := make([]Leaf, len(in.Rewards)), make([]float64, len(in.Rewards)), make([][]float64, len(in.Rewards))
		sizes := map[int]int{}
		for i, row := range in.Rewards {
			leaves[i] = Leaf{Question: question[i], Tree: tree[i]}
			sizes[tree[i]]++
			for j, v := range row {
				rewards[i] += v
				if in.Mask[i][j] != 0 {
					masked[i] = append(masked[i], v)
				}
			}
		}
		for theirs, estimator := range names {
			want, own := ours[theirs]
			if !own {
				want = all[theirs]
			}
			var got [][]float64
			if perToken(estimator) {
				got = TokenAdvantages(estimator, masked, leaves)
			} else {
				for i, a := range Advantages(estimator, rewards, leaves) {
					got = append(got, slices.Repeat([]float64{a}, len(masked[i])))
				}
			}
			for i := range want {
				at := 0
				for j, w := range want[i] {
					if in.Mask[i][j] == 0 {
						continue // no token
					}
					g := got[i][at]
					at++
					if estimator == "intra" && sizes[tree[i]] == 1 {
						w = 0 // a leaf alone in its tree: ours is 0, the reference gives its reward
					}
					if !f.Tolerance.Close(g, w) {
						t.Errorf("%s: %s[%d][%d] = %v, want %v", c.ID, theirs, i, j, g, w)
					}
				}
			}
			if estimator == "grpo" && len(rewards) > 1 && !slices.Contains(counts(question), 1) {
				for i, a := range Advantages("inter", rewards, leaves) {
					if a != Advantages("grpo", rewards, leaves)[i] {
						t.Errorf("%s: inter and grpo differ at %d", c.ID, i)
					}
				}
			}
		}
	}
}

// numbered gives each name its number.
func numbered(names []any) []int {
	numbers, out := map[string]int{}, make([]int, len(names))
	for i, name := range names {
		key := fmt.Sprint(name)
		if _, known := numbers[key]; !known {
			numbers[key] = len(numbers)
		}
		out[i] = numbers[key]
	}
	return out
}

func counts(keys []int) (sizes []int) {
	count := map[int]int{}
	for _, k := range keys {
		count[k]++
	}
	for _, n := range count {
		sizes = append(sizes, n)
	}
	return sizes
}

func TestVectorPolicyLoss(t *testing.T) {
	f := vectors.Load(t, "tree-grpo", "policy_loss")
	compared := 0
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Old        [][]float64 `json:"old_log_prob"`
			LogP       [][]float64 `json:"log_prob"`
			Advantages [][]float64
			Mask       [][]int
			Turns      [][]int
			Clip       float64 `json:"cliprange"`
			Dual       float64 `json:"clip_ratio_c"`
		}](t, c.Input)
		raw := vectors.Decode[map[string]json.RawMessage](t, c.Want())
		var batch objective.Batch
		for r := range in.LogP {
			row := objective.Row{LogP: in.LogP[r], OldLogP: in.Old[r], Entropy: make([]float64, len(in.LogP[r])), Turns: in.Turns[r],
				TokenFields: map[string][]float64{"advantage": in.Advantages[r]}}
			for _, m := range in.Mask[r] {
				row.PolicyMask = append(row.PolicyMask, m != 0)
			}
			batch.Rows = append(batch.Rows, row)
		}
		for name, config := range map[string]Config{
			"dual_clip token-mean":          {PolicyLoss: "token", Aggregation: "token_mean"},
			"dual_clip seq-mean-token-mean": {PolicyLoss: "token", Aggregation: "sequence_mean"},
			"gspo token-mean":               {PolicyLoss: "sequence", Aggregation: "token_mean"},
			"turn token-mean":               {PolicyLoss: "turn", Aggregation: "token_mean"},
		} {
			if config.PolicyLoss == "turn" && slices.Max(slices.Concat(in.Turns...)) > 9 {
				continue // the reference drops the tokens of turns after the ninth
			}
			want := vectors.Decode[struct {
				Loss    vectors.Float `json:"pg_loss"`
				Clipped float64       `json:"clipfrac"`
				Dual    float64       `json:"clipfrac_lower"`
				KL      float64       `json:"ppo_kl"`
			}](t, raw[name])
			if math.IsNaN(float64(want.Loss)) {
				continue // a row without tokens, which ours leaves out
			}
			config.Advantage, config.ClipLow, config.ClipHigh, config.DualClip = noEstimator, in.Clip, in.Clip, in.Dual
			config.KL.Kind = "none"
			o, err := Objective(config)
			if err != nil {
				t.Fatal(err)
			}
			got, err := objective.Eval(o, batch)
			if err != nil {
				t.Fatal(err)
			}
			compared++
			if !f.Tolerance.Close(got.Loss, float64(want.Loss)) {
				t.Errorf("%s: %s loss %v, want %v", c.ID, name, got.Loss, want.Loss)
			}
			if config.PolicyLoss != "token" {
				continue
			}
			for metric, w := range map[string]float64{"clip_fraction": want.Clipped, "dual_clip_fraction": want.Dual, "old_kl": want.KL} {
				if !f.Tolerance.Close(got.Metrics[metric], w) {
					t.Errorf("%s: %s %s %v, want %v", c.ID, name, metric, got.Metrics[metric], w)
				}
			}
		}
		checkK3(t, f.Tolerance, c.ID, in.LogP, in.Old, vectors.Decode[[][]float64](t, raw["k3_per_token"]))
	}
	if compared < 80 {
		t.Errorf("only %d losses compared", compared)
	}
}

// checkK3 compares the divergence of the loss with the reference's, where the old policy is the reference policy.
func checkK3(t *testing.T, tolerance vectors.Tolerance, id string, logp, ref, want [][]float64) {
	t.Helper()
	o, err := Objective(Config{PolicyLoss: "token", KL: KL{Kind: "k3", Coefficient: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for r := range logp {
		for i := range logp[r] {
			row := objective.Row{LogP: logp[r][i : i+1], OldLogP: logp[r][i : i+1], RefLogP: ref[r][i : i+1], Entropy: []float64{0},
				PolicyMask: []bool{true}, SequenceFields: map[string]float64{"advantage": 0}}
			got, err := objective.Eval(o, objective.Batch{Rows: []objective.Row{row}})
			if err != nil {
				t.Fatal(err)
			}
			if !tolerance.Close(got.Metrics["kl"], want[r][i]) {
				t.Errorf("%s: k3[%d][%d] = %v, want %v", id, r, i, got.Metrics["kl"], want[r][i])
			}
		}
	}
}

func TestVectorTree(t *testing.T) {
	f := vectors.Load(t, "tree-grpo", "tree")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Nodes [][]any
			Keep  int
		}](t, c.Input)
		want := vectors.Decode[struct {
			Order      []string             `json:"bfs_order"`
			Expandable []string             `json:"expandable"`
			Leaves     int                  `json:"leaf_count"`
			Scores     map[string][]float64 `json:"leaf_token_scores"`
			Kept       json.RawMessage      `json:"kept_leaves"`
			Remaining  []string             `json:"nodes_after_prune"`
		}](t, c.Want())
		tree, number, names := NewTree(), map[string]int{}, []string{}
		for i, n := range in.Nodes {
			name := n[0].(string)
			names = append(names, name)
			number[name] = i
			if i == 0 {
				continue
			}
			if got := tree.Add(number[n[1].(string)], n[2].(bool)); got != i {
				t.Fatalf("%s: node %s has number %d, want %d", c.ID, name, got, i)
			}
		}
		named := func(nodes []int) []string {
			out := []string{}
			for _, n := range nodes {
				out = append(out, names[n])
			}
			return out
		}
		same := func(what string, got []int, want []string) {
			t.Helper()
			if !slices.Equal(named(got), want) {
				t.Errorf("%s: %s %v, want %v", c.ID, what, named(got), want)
			}
		}
		same("order", tree.BreadthFirst(), want.Order)
		same("expandable", tree.Expandable(), want.Expandable)
		if got := len(tree.Leaves()); got != want.Leaves {
			t.Errorf("%s: %d leaves, want %d", c.ID, got, want.Leaves)
		}
		for leaf, scores := range want.Scores {
			tokens := int(in.Nodes[number[leaf]][4].(float64))
			score := in.Nodes[number[leaf]][3].(float64)
			if got := onLastToken(policyEpisode("e", tokens), score); !closeAll(f.Tolerance, got, scores[:tokens]) {
				t.Errorf("%s: scores of %s %v, want %v", c.ID, leaf, got, scores[:tokens])
			}
		}
		kept, err := tree.Keep(in.Keep, slices.Reverse)
		if errorWanted := want.Kept[0] == '{'; errorWanted != (err != nil) {
			t.Errorf("%s: error %v, the reference says %s", c.ID, err, want.Kept)
		}
		if err == nil {
			same("kept leaves", kept, vectors.Decode[[]string](t, want.Kept))
			same("nodes above them", tree.Above(kept), want.Remaining)
		}
	}
}

func closeAll(tolerance vectors.Tolerance, got, want []float64) bool {
	return slices.EqualFunc(got, want, tolerance.Close)
}
