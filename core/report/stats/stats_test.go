package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tol {
		t.Errorf("%s: got %v, want %v ± %v", what, got, want, tol)
	}
}

func TestCriticalT(t *testing.T) {
	// Student's table at 95 %, two-sided.
	for n, want := range map[int]float64{2: 12.7062, 3: 4.3027, 4: 3.1824, 5: 2.7764, 10: 2.2622, 31: 2.0423} {
		near(t, "t", CriticalT(n, 0.95), want, 5e-5)
	}
}

func TestAcrossSeeds(t *testing.T) {
	var few *NotTestableError
	for n := range MinSeeds {
		got, err := AcrossSeeds(slices.Repeat([]float64{0.1}, n), 0.95)
		if !errors.As(err, &few) || few.Seeds != n || got.HasP {
			t.Errorf("%d seeds: %+v, %v", n, got, err)
		}
	}
	if _, err := AcrossSeeds([]float64{0.1, 0.2, math.NaN()}, 0.95); err == nil || errors.As(err, &few) {
		t.Errorf("NaN: %v", err)
	}
	got, err := AcrossSeeds([]float64{0.05, 0.07, 0.03}, 0.95)
	if err != nil || !got.HasP {
		t.Fatal(got, err)
	}
	// mean .05, sd .02: t = .05/(.02/√3) = 4.3301; p from t(2) in closed form: 1 - t/√(2+t²).
	near(t, "t", got.T, 4.330127018922, 1e-9)
	near(t, "p", got.P, 1-got.T/math.Sqrt(2+got.T*got.T), 1e-12)
}

func TestNoSpreadNoP(t *testing.T) {
	// Equal differences up to rounding: 0.6-0.5, 0.7-0.6, 0.3-0.2 are three different floats.
	d, err := Differences([]float64{0.6, 0.7, 0.3}, []float64{0.5, 0.6, 0.2})
	if err != nil {
		t.Fatal(err)
	}
	got, err := AcrossSeeds(d, 0.95)
	if err != nil || got.HasP || got.SD != 0 {
		t.Fatalf("%+v %v", got, err)
	}
	d, err = Differences([]float64{0.1 + 0.2, 1}, []float64{0.3, 1})
	if err != nil || d[0] != 0 || d[1] != 0 {
		t.Fatalf("rounding passes for a difference: %v %v", d, err)
	}
	if _, err := Differences([]float64{1}, nil); err == nil {
		t.Fatal("unequal lengths accepted")
	}
}

func TestSignFlipExact(t *testing.T) {
	// All four positive: only the two patterns of one sign are as extreme.
	p, err := SignFlip([]float64{1, 2, 0, 3, 4}, 100, rng.New(1))
	if err != nil || !p.Exact || p.Draws != 16 || p.P != 2./16 {
		t.Fatalf("%+v %v", p, err)
	}
	// Equal sizes: the test is the sign test.
	d := []float64{1, 1, 1, 1, 1, 1, 1, -1, -1, 0, 0}
	p, err = SignFlip(d, 100, rng.New(1))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "sign test", p.P, SignTest(d), 1e-12)
	// Brute force on uneven sizes.
	d = []float64{0.3, -0.1, 0.2, 0.7, -0.4, 0.25}
	sum, extreme := 0.95, 0
	for mask := range 64 {
		s := 0.0
		for i, x := range d {
			if mask>>i&1 == 1 {
				x = -x
			}
			s += x
		}
		if math.Abs(s) >= sum-1e-9 {
			extreme++
		}
	}
	p, _ = SignFlip(d, 100, rng.New(1))
	near(t, "brute force", p.P, float64(extreme)/64, 1e-12)
	if p, err := SignFlip([]float64{0, 0}, 1, rng.New(1)); err != nil || p.P != 1 {
		t.Fatalf("no differences: %+v %v", p, err)
	}
}

func TestSignFlipMonteCarlo(t *testing.T) {
	// 70 non-zero differences of one size: the exact value is McNemar's.
	var d []float64
	for i := range 70 {
		x := 1.0
		if i < 25 {
			x = -1
		}
		d = append(d, x, 0)
	}
	p, err := SignFlip(d, 20000, rng.New(3))
	if err != nil || p.Exact {
		t.Fatal(p, err)
	}
	want := McNemar(45, 25)
	near(t, "p", p.P, want, 4*math.Sqrt(want*(1-want)/20000))
	again, _ := SignFlip(d, 20000, rng.New(3))
	if again != p {
		t.Fatal("equal keys give different values")
	}
	if _, err := SignFlip([]float64{math.Inf(1)}, 10, rng.New(1)); err == nil {
		t.Fatal("infinity accepted")
	}
}

func TestWilcoxonAgreesWithItself(t *testing.T) {
	r := rand.New(rng.New(5).Source())
	for range 20 {
		d := make([]float64, 25)
		for i := range d {
			d[i] = r.NormFloat64() + 0.2
		}
		exact, err := WilcoxonExact(d)
		if err != nil {
			t.Fatal(err)
		}
		normal, err := WilcoxonNormal(d, DropZeros, true)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "exact against normal", normal.P, exact.P, 0.01)
	}
	if _, err := WilcoxonExact([]float64{1, -1, 2}); err == nil {
		t.Error("exact test of tied values")
	}
}

func TestCrossedBootstrap(t *testing.T) {
	const arms, seeds, nq, reps = 2, 5, 200, 4000
	// Value = seed effect + question effect + noise, with the same question effect in both arms.
	r := rand.New(rng.New(8).Source())
	x := make([][][]float64, arms)
	question := make([]float64, nq)
	for q := range question {
		question[q] = r.NormFloat64()
	}
	for a := range x {
		x[a] = make([][]float64, seeds)
		for s := range x[a] {
			x[a][s] = make([]float64, nq)
			for q := range x[a][s] {
				x[a][s][q] = question[q] + 0.1*float64(a) + 0.05*r.NormFloat64()
			}
		}
	}
	reps1, err := CrossedBootstrap(x, rng.New(1), rng.New(2), reps)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := CrossedBootstrap(x, rng.New(1), rng.New(2), reps)
	if !slices.Equal(reps1[0], again[0]) {
		t.Fatal("equal keys give different replicates")
	}
	diff := make([]float64, reps)
	for b := range diff {
		diff[b] = reps1[1][b] - reps1[0][b]
	}
	// One arm spreads as its questions do; the difference does not, for the questions are shared.
	arm := StandardError(reps1[0])
	near(t, "one arm", arm, 1/math.Sqrt(nq), 0.012)
	if d := StandardError(diff); d > 0.1*arm {
		t.Errorf("difference spreads %v, one arm %v: the questions are not shared", d, arm)
	}
	near(t, "centre", mean(diff), 0.1, 0.01)
	if i := Percentile(diff, 0.95); i.Low >= i.High {
		t.Errorf("interval %v", i)
	}
	// Without question effects, only seeds spread: √((S-1)/S)·sd/√S is what resampling S seeds shows.
	only := [][][]float64{{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}}
	rep, err := CrossedBootstrap(only, rng.New(4), rng.New(5), 20000)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "seeds", StandardError(rep[0]), math.Sqrt(2./5), 0.01)
	if _, err := CrossedBootstrap([][][]float64{{{1, 2}}, {{1}}}, rng.New(1), rng.New(2), 1); err == nil {
		t.Error("unequal questions accepted")
	}
}

func TestBCaRefusesDegenerate(t *testing.T) {
	if _, err := BCa([]float64{1, 1, 1}, []float64{1, 1}, 0.95); err == nil {
		t.Error("no spread accepted")
	}
	if _, err := BCa([]float64{1, 2, 3}, []float64{0, 0.5}, 0.95); err == nil {
		t.Error("one-sided replicates accepted")
	}
}

func TestAggregates(t *testing.T) {
	got, err := InterquartileMean([][]float64{{0, 1, 2, 3}, {4, 5, 6, 100}})
	if err != nil || got != (2+3+4+5)/4. {
		t.Errorf("IQM %v %v", got, err)
	}
	// Two data sets: on the first x always wins, on the second all tie.
	p, err := ProbabilityOfImprovement([][]float64{{2, 1}, {3, 1}}, [][]float64{{0, 1}, {1, 1}})
	if err != nil || p != 0.75 {
		t.Errorf("probability of improvement %v %v", p, err)
	}
	q, _ := ProbabilityOfImprovement([][]float64{{0, 1}, {1, 1}}, [][]float64{{2, 1}, {3, 1}})
	if p+q != 1 {
		t.Errorf("the two directions add to %v", p+q)
	}
	if _, err := ProbabilityOfImprovement([][]float64{{1}}, [][]float64{{1, 2}}); err == nil {
		t.Error("unequal data sets accepted")
	}
}

func TestDetectable(t *testing.T) {
	d, err := DetectableOverSeeds(0.02, 5, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "observed", d.Observed, 2.7764451*0.02*math.Sqrt2/math.Sqrt(5), 1e-8)
	// A study whose differences spread that much rejects exactly from there on.
	for _, factor := range []float64{0.999, 1.001} {
		sd, m := 0.02*math.Sqrt2, factor*d.Observed
		base := []float64{-1, 0, 1, 0, 0}
		scale := sd / math.Sqrt(0.5)
		for i := range base {
			base[i] = m + scale*base[i]
		}
		tt, err := AcrossSeeds(base, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if (tt.P < 0.05) != (factor > 1) {
			t.Errorf("factor %v: p = %v", factor, tt.P)
		}
	}
	if d.Power80 <= d.Observed {
		t.Error("power 80 % below the threshold")
	}
	var few *NotTestableError
	if _, err := DetectableOverSeeds(0.02, 2, 0.05); !errors.As(err, &few) {
		t.Errorf("two seeds: %v", err)
	}
	q, err := DetectableOverQuestions(0.3, 500, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "observed", q.Observed, 1.959964*math.Sqrt(0.3/500), 1e-6)
	near(t, "power equation", q.Power80*math.Sqrt(500),
		1.959964*math.Sqrt(0.3)+0.8416212*math.Sqrt(0.3-q.Power80*q.Power80), 1e-5)
	if q, _ := DetectableOverQuestions(0.01, 3, 0.05); q.Observed > 0.01 || q.Power80 > 0.01 {
		t.Errorf("difference beyond the discordance: %+v", q)
	}
	for _, bad := range []float64{0, -1, 2, math.NaN()} {
		if _, err := DetectableOverQuestions(bad, 10, 0.05); err == nil {
			t.Errorf("discordance %v accepted", bad)
		}
	}
}

func TestHolmProperties(t *testing.T) {
	r := rand.New(rng.New(11).Source())
	for range 200 {
		p := make([]float64, 1+r.IntN(8))
		for i := range p {
			p[i] = r.Float64()
		}
		h, b := Holm(p), Bonferroni(p)
		for i := range p {
			if h[i] < p[i] || h[i] > b[i] || h[i] > 1 {
				t.Fatalf("p %v holm %v bonferroni %v", p, h, b)
			}
			for j := range p {
				if p[i] < p[j] && h[i] > h[j] {
					t.Fatalf("order changed: %v -> %v", p, h)
				}
			}
		}
	}
}

func TestBadCounts(t *testing.T) {
	for _, c := range [][2]int{{1, 0}, {-1, 3}, {4, 3}} {
		if _, err := Wilson(c[0], c[1], 0.95); err == nil {
			t.Errorf("Wilson accepts %v", c)
		}
		if _, err := ClopperPearson(c[0], c[1], 0.95); err == nil {
			t.Errorf("Clopper-Pearson accepts %v", c)
		}
	}
	if _, err := Wilson(1, 2, 1.5); err == nil {
		t.Error("confidence 1.5 accepted")
	}
}
