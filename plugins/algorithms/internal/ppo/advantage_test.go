package ppo

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

func bools(m []int) []bool {
	out := make([]bool, len(m))
	for i, v := range m {
		out[i] = v != 0
	}
	return out
}

func masks(m [][]int) [][]bool {
	var out [][]bool
	for _, row := range m {
		out = append(out, bools(row))
	}
	return out
}

func nearAll(t *testing.T, tol vectors.Tolerance, id, what string, got, want [][]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows of %s, want %d", id, len(got), what, len(want))
	}
	for i, row := range want {
		if len(got[i]) != len(row) {
			t.Fatalf("%s: %s[%d] has %d elements, want %d", id, what, i, len(got[i]), len(row))
		}
		for k, w := range row {
			if !tol.Close(got[i][k], w) {
				t.Errorf("%s: %s[%d][%d] = %v, want %v", id, what, i, k, got[i][k], w)
			}
		}
	}
}

// advantages is the estimate over a batch as the references make it: padding takes part in the recursion, the mask only
// chooses what whitening measures.
func advantages(rewards, values [][]float64, mask [][]bool, gamma, lambda float64) (whitened, returns [][]float64, err error) {
	var raw [][]float64
	for i := range rewards {
		a, r := GAE(rewards[i], values[i], nil, gamma, lambda)
		raw, returns = append(raw, a), append(returns, r)
	}
	whitened, err = Whiten(raw, mask)
	return whitened, returns, err
}

func TestVectorGAE(t *testing.T) {
	f := vectors.Load(t, "search-r1", "gae")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Rewards       [][]float64 `json:"token_level_rewards"`
			Values        [][]float64
			Mask          [][]int
			Gamma, Lambda float64
		}](t, c.Input)
		want := vectors.Decode[struct {
			Whitened [][]float64 `json:"advantages_whitened"`
			Returns  [][]float64
			Error    string
		}](t, c.Want())
		whitened, returns, err := advantages(in.Rewards, in.Values, masks(in.Mask), in.Gamma, in.Lambda)
		if want.Error != "" { // the reference raises with 0 or 1 tokens
			if !errors.Is(err, ErrTooFewTokens) {
				t.Errorf("%s: error %v, want ErrTooFewTokens", c.ID, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		nearAll(t, f.Tolerance, c.ID, "returns", returns, want.Returns)
		nearAll(t, f.Tolerance, c.ID, "advantages", whitened, want.Whitened)
	}
}

func TestVectorStepSearchAdvantage(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "steppo_advantage")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Scores              [][]float64 `json:"token_level_scores"`
			Attention           [][]int     `json:"attention_mask"`
			Info                [][]int     `json:"info_mask"`
			Old                 [][]float64 `json:"old_log_probs"`
			Ref                 [][]float64 `json:"ref_log_prob"`
			Values              [][]float64
			Beta, Gamma, Lambda float64
		}](t, c.Input)
		want := vectors.Decode[struct {
			Rewards  [][]float64 `json:"token_level_rewards"`
			Returns  [][]float64
			Whitened [][]float64 `json:"advantages_whitened"`
		}](t, c.Want())
		var rewards [][]float64
		for i, scores := range in.Scores {
			r, _ := KLInReward(scores, in.Old[i], in.Ref[i], bools(in.Info[i]), in.Beta)
			rewards = append(rewards, r)
		}
		nearAll(t, f.Tolerance, c.ID, "rewards", rewards, want.Rewards)
		whitened, returns, err := advantages(rewards, in.Values, masks(in.Attention), in.Gamma, in.Lambda)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		nearAll(t, f.Tolerance, c.ID, "returns", returns, want.Returns)
		nearAll(t, f.Tolerance, c.ID, "advantages", whitened, want.Whitened)
	}
}

func TestVectorKLInReward(t *testing.T) {
	f := vectors.Load(t, "search-r1", "kl_in_reward")
	tested := 0
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Old    [][]float64 `json:"old_log_probs"`
			Ref    [][]float64 `json:"ref_log_prob"`
			Scores [][]float64 `json:"token_level_scores"`
			Mask   [][]int     `json:"info_mask"`
			Beta   float64
			KL     string
		}](t, c.Input)
		if in.KL != "kl" {
			continue // other estimators: core/sdk/objective tests them
		}
		tested++
		want := vectors.Decode[struct {
			Rewards [][]float64   `json:"token_level_rewards"`
			Mean    vectors.Float `json:"mean_kl"`
		}](t, c.Want())
		var rewards [][]float64
		mean, empty := 0., false
		for i, scores := range in.Scores {
			r, kl := KLInReward(scores, in.Old[i], in.Ref[i], bools(in.Mask[i]), in.Beta)
			rewards = append(rewards, r)
			mean += kl / float64(len(in.Scores))
			empty = empty || !contains(in.Mask[i], 1)
		}
		nearAll(t, f.Tolerance, c.ID, "rewards", rewards, want.Rewards)
		if !empty && !f.Tolerance.Close(mean, float64(want.Mean)) {
			t.Errorf("%s: mean divergence %v, want %v", c.ID, mean, want.Mean)
		}
	}
	if tested == 0 {
		t.Fatal("no case of the k1 estimator")
	}
}

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// TestGAEByHand checks the recursion on numbers worked out on paper, with and without a document in between.
func TestGAEByHand(t *testing.T) {
	rewards, values := []float64{0, 0, 1}, []float64{.5, .25, .5}
	// γ = .5, λ = .5: δ = {-.375, 0, .5}; A = {-.375+.25·.125, .25·.5, .5}
	a, r := GAE(rewards, values, nil, .5, .5)
	equal(t, a, []float64{-.34375, .125, .5})
	equal(t, r, []float64{.15625, .375, 1})
	// Without its middle token the episode is {0, 1} with values {.5, .5}: δ = {-.25, .5}, A = {-.125, .5}.
	a, r = GAE(rewards, values, []bool{true, false, true}, .5, .5)
	equal(t, a, []float64{-.125, 0, .5})
	equal(t, r, []float64{.375, .25, 1})
	// A reward on a document at the end counts on the last token before it.
	a, r = GAE(rewards, values, []bool{true, true, false}, 1, 1)
	equal(t, a, []float64{.5, .75, 0})
	equal(t, r, []float64{1, 1, .5})
	// γ = λ = 1: every return is the sum of the rewards to come.
	_, r = GAE([]float64{1, 2, 3}, []float64{9, 8, 7}, nil, 1, 1)
	equal(t, r, []float64{6, 5, 3})
}

func equal(t *testing.T, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("got %v, want %v", got, want)
			return
		}
	}
}

// TestGAEProperties: a critic that is right has no advantage; a mask is the same as leaving the tokens out.
func TestGAEProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + r.IntN(12)
		rewards, values, right, mask := make([]float64, n), make([]float64, n), make([]float64, n), make([]bool, n)
		gamma, lambda, ahead := r.Float64(), r.Float64(), 0.
		var shortR, shortV []float64
		for k := n - 1; k >= 0; k-- {
			rewards[k], values[k], mask[k] = r.NormFloat64(), r.NormFloat64(), r.IntN(3) > 0
			if !mask[k] {
				rewards[k] = 0
			}
			ahead = rewards[k] + gamma*ahead
			right[k] = ahead
		}
		a, _ := GAE(rewards, right, nil, gamma, lambda)
		equal(t, a, make([]float64, n))
		for k, in := range mask {
			if in {
				shortR, shortV = append(shortR, rewards[k]), append(shortV, values[k])
			}
		}
		masked, _ := GAE(rewards, values, mask, gamma, lambda)
		short, _ := GAE(shortR, shortV, nil, gamma, lambda)
		var kept []float64
		for k, in := range mask {
			if in {
				kept = append(kept, masked[k])
			} else if masked[k] != 0 {
				t.Fatalf("advantage %v on a token outside the mask", masked[k])
			}
		}
		equal(t, kept, short)
	}
}

func TestWhitenProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var batch [][]float64
		var mask [][]bool
		n := 0
		for range 1 + r.IntN(5) {
			row, m := make([]float64, 1+r.IntN(6)), []bool(nil)
			for i := range row {
				row[i] = 3 + 5*r.NormFloat64()
				m = append(m, r.IntN(4) > 0)
				if m[i] {
					n++
				}
			}
			batch, mask = append(batch, row), append(mask, m)
		}
		out, err := Whiten(batch, mask)
		if n < 2 {
			if !errors.Is(err, ErrTooFewTokens) {
				t.Fatalf("%d tokens: error %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		sum, squares := 0., 0.
		for i, row := range out {
			for k, x := range row {
				if mask[i][k] {
					sum += x
					squares += x * x
				}
			}
		}
		if math.Abs(sum) > 1e-9 || math.Abs(squares/float64(n-1)-1) > 1e-3 {
			t.Fatalf("whitened batch of %d tokens has sum %v and variance %v", n, sum, squares/float64(n-1))
		}
	}
	out, err := Whiten([][]float64{{2, 2}, {2}}, nil)
	if err != nil || out[0][0] != 0 || out[1][0] != 0 {
		t.Errorf("equal advantages give %v, %v, want exact zeros", out, err)
	}
}

func TestRewards(t *testing.T) {
	got, err := Rewards(4, 1, Placed{1, .25}, Placed{3, .5}, Placed{1, .25})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, []float64{0, .5, 0, 1.5})
	if _, err := Rewards(2, 1, Placed{2, 1}); err == nil {
		t.Error("a place outside the response is taken")
	}
	if got, err := Rewards(0, 1); err != nil || len(got) != 0 {
		t.Errorf("an empty response gives %v, %v", got, err)
	}
}
