package reinforcepp

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAdvantagesByHand(t *testing.T) {
	// Returns .7 and .8 of the first episode, whose second token is a tool's, and 0 of the second: mean .5, variance
	// (.04 + .09 + .25) / 3.
	got := Advantages([]Episode{
		{Reward: 1, Mask: [][]bool{{true, false, true}}, Penalty: [][]float64{{.1, 9, .2}}},
		{Reward: 0, Mask: [][]bool{{true}}, Penalty: [][]float64{{0}}},
	})
	deviation := math.Sqrt(.38 / 3)
	for i, want := range []float64{.2 / deviation, 0, .3 / deviation} {
		if math.Abs(float64(got[0][0][i])-want) > 1e-6 {
			t.Errorf("token %d: %v, want %v", i, got[0][0][i], want)
		}
	}
	if want := -.5 / deviation; math.Abs(float64(got[1][0][0])-want) > 1e-6 {
		t.Errorf("got %v, want %v", got[1][0][0], want)
	}
}

// A penalty in a later sequence of an episode counts in the earlier ones.
func TestAdvantagesOverSequences(t *testing.T) {
	got := Advantages([]Episode{
		{Reward: 0, Mask: [][]bool{{true}, {true}}, Penalty: [][]float64{{0}, {1}}},
		{Reward: 1, Mask: [][]bool{{true, true}}, Penalty: [][]float64{{0, 0}}},
	})
	if got[0][0][0] != got[0][1][0] || got[0][0][0] != -1 || got[1][0][0] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestAdvantagesEqual(t *testing.T) {
	for _, reward := range []float64{.1, .3, 1. / 3} {
		var episodes []Episode
		for range 7 {
			episodes = append(episodes, Episode{Reward: reward, Mask: [][]bool{{true, true}}, Penalty: [][]float64{{0, 0}}})
		}
		for _, e := range Advantages(episodes) {
			if e[0][0] != 0 || e[0][1] != 0 {
				t.Fatalf("equal rewards of %v give %v", reward, e)
			}
		}
	}
	if got := Advantages(nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := Advantages([]Episode{{Reward: 1, Mask: [][]bool{{false}}, Penalty: [][]float64{{0}}}}); got[0][0][0] != 0 {
		t.Errorf("an episode without policy tokens: %v", got)
	}
}

func TestAdvantageProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var episodes, scaled, shifted []Episode
		for range 2 + rng.IntN(6) {
			e := Episode{Reward: rng.Float64()}
			for range 1 + rng.IntN(2) {
				n := 1 + rng.IntN(6)
				mask, penalty := make([]bool, n), make([]float64, n)
				for t := range n {
					mask[t], penalty[t] = rng.IntN(3) > 0, .1*rng.NormFloat64()
				}
				e.Mask, e.Penalty = append(e.Mask, mask), append(e.Penalty, penalty)
			}
			episodes = append(episodes, e)
			s := Episode{Reward: 4 * e.Reward, Mask: e.Mask}
			for _, penalty := range e.Penalty {
				var times []float64
				for _, v := range penalty {
					times = append(times, 4*v)
				}
				s.Penalty = append(s.Penalty, times)
			}
			scaled = append(scaled, s)
			shifted = append(shifted, Episode{Reward: e.Reward + 2, Mask: e.Mask, Penalty: e.Penalty})
		}
		order := rng.Perm(len(episodes))
		var moved []Episode
		for _, i := range order {
			moved = append(moved, episodes[i])
		}
		a, b, c, d := Advantages(episodes), Advantages(scaled), Advantages(shifted), Advantages(moved)
		sum, squares, n := 0., 0., 0
		each(episodes, func(i, k, tok int) {
			v := float64(a[i][k][tok])
			sum, squares, n = sum+v, squares+v*v, n+1
			if math.Abs(v-float64(b[i][k][tok])) > 1e-4 || math.Abs(v-float64(c[i][k][tok])) > 1e-4 {
				t.Fatalf("scale or shift matter: %v, %v, %v", v, b[i][k][tok], c[i][k][tok])
			}
		})
		for at, i := range order {
			for k := range a[i] {
				for tok := range a[i][k] {
					if math.Abs(float64(a[i][k][tok]-d[at][k][tok])) > 1e-5 {
						t.Fatal("order matters")
					}
					if !episodes[i].Mask[k][tok] && a[i][k][tok] != 0 {
						t.Fatal("a token of a tool has an advantage")
					}
				}
			}
		}
		if n > 1 && (math.Abs(sum) > 1e-4 || math.Abs(squares/float64(n)-1) > 1e-4) && squares != 0 {
			t.Fatalf("mean %v, variance %v of %d tokens", sum/float64(n), squares/float64(n), n)
		}
	}
}

func TestBaselineNeedsAGroup(t *testing.T) {
	if ds := (Config{Baseline: "group_mean", GroupSize: 1}).Validate(); !ds.HasErrors() {
		t.Error("a group of one must be refused")
	}
}
