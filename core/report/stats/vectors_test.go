package stats

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
)

type check struct {
	t   *testing.T
	tol vectors.Tolerance
	n   *int
}

func (c check) num(what string, got float64, want vectors.Float) {
	c.t.Helper()
	*c.n++
	if !c.tol.Close(got, float64(want)) {
		c.t.Errorf("%s: got %.12g, want %.12g", what, got, float64(want))
	}
}

func (c check) interval(what string, got Interval, want [2]vectors.Float) {
	c.t.Helper()
	c.num(what+" low", got.Low, want[0])
	c.num(what+" high", got.High, want[1])
}

func each[I, E any](t *testing.T, name string, minValues int, run func(c check, v vectors.Case, in I, want E)) {
	t.Helper()
	f := vectors.Load(t, "stats", name)
	n := 0
	for _, v := range f.Cases {
		t.Run(v.ID, func(t *testing.T) {
			run(check{t, f.Tolerance, &n}, v, vectors.Decode[I](t, v.Input), vectors.Decode[E](t, v.Want()))
		})
	}
	if n < minValues {
		t.Errorf("only %d values were compared, expected at least %d", n, minValues)
	}
}

func TestVectorPaired(t *testing.T) {
	type input struct{ X, Y []float64 }
	type expected struct {
		MeanDiff vectors.Float     `json:"mean_diff"`
		StdDiff  vectors.Float     `json:"std_diff"`
		TP       *vectors.Float    `json:"t_p"`
		Interval *[2]vectors.Float `json:"t_interval95"`
		Wilcoxon map[string]vectors.Float
		SignP    vectors.Float `json:"sign_p"`
	}
	each(t, "paired", 250, func(c check, v vectors.Case, in input, want expected) {
		d, err := Differences(in.X, in.Y)
		if err != nil {
			c.t.Fatal(err)
		}
		got, err := Paired(d, 0.95)
		if err != nil {
			c.t.Fatal(err)
		}
		c.num("mean", got.Mean, want.MeanDiff)
		c.num("sd", got.SD, want.StdDiff)
		if want.Interval != nil {
			c.interval("interval", got.Interval, *want.Interval)
		}
		switch {
		case v.HasQuirk() || want.TP == nil:
			if got.HasP {
				c.t.Errorf("a p-value (%v) without spread", got.P)
			}
		default:
			c.num("p", got.P, *want.TP)
		}
		c.num("sign test", SignTest(d), want.SignP)
		if want.Wilcoxon == nil {
			if r, err := WilcoxonNormal(d, DropZeros, false); err == nil {
				c.t.Errorf("Wilcoxon without differences gives %v", r)
			}
			return
		}
		for name, w := range want.Wilcoxon {
			var r SignedRank
			var err error
			switch name {
			case "exact":
				r, err = WilcoxonExact(d)
			case "normal", "statistic":
				r, err = WilcoxonNormal(d, DropZeros, false)
			case "normal_corrected":
				r, err = WilcoxonNormal(d, DropZeros, true)
			case "normal_pratt":
				r, err = WilcoxonNormal(d, Pratt, false)
			default:
				c.t.Fatalf("unknown variant %q", name)
			}
			if err != nil {
				c.t.Errorf("wilcoxon %s: %v", name, err)
				continue
			}
			if name == "statistic" {
				c.num(name, r.Statistic, w)
			} else {
				c.num("wilcoxon "+name, r.P, w)
			}
		}
	})
}

func TestVectorMcNemar(t *testing.T) {
	type input struct {
		First  int `json:"only_first_right"`
		Second int `json:"only_second_right"`
	}
	type chi2 struct{ Statistic, P vectors.Float }
	type expected struct {
		Statsmodels vectors.Float `json:"exact_p_statsmodels"`
		Binomtest   vectors.Float `json:"exact_p_binomtest"`
		MidP        vectors.Float `json:"mid_p"`
		Chi2        *chi2
		Corrected   *chi2 `json:"chi2_continuity"`
	}
	each(t, "mcnemar", 130, func(c check, _ vectors.Case, in input, want expected) {
		p := McNemar(in.First, in.Second)
		c.num("exact (statsmodels)", p, want.Statsmodels)
		c.num("exact (binomtest)", p, want.Binomtest)
		c.num("mid-p", McNemarMidP(in.First, in.Second), want.MidP)
		for continuity, w := range map[bool]*chi2{false: want.Chi2, true: want.Corrected} {
			s, p, ok := McNemarChi2(in.First, in.Second, continuity)
			if ok != (w != nil) {
				c.t.Errorf("chi2 exists: %v, want %v", ok, w != nil)
			} else if ok {
				c.num("chi2", s, w.Statistic)
				c.num("chi2 p", p, w.P)
			}
		}
	})
}

func TestVectorMultipleTests(t *testing.T) {
	type family struct {
		Adjusted []vectors.Float
		Reject   []bool `json:"reject05"`
	}
	methods := map[string]func([]float64) []float64{"holm": Holm, "bonferroni": Bonferroni, "fdr_bh": BenjaminiHochberg}
	each(t, "multiple_tests", 150, func(c check, _ vectors.Case, in struct{ P []float64 }, want map[string]family) {
		for name, w := range want {
			adjust, ok := methods[name]
			if !ok {
				c.t.Fatalf("unknown method %q", name)
			}
			got := adjust(in.P)
			if len(got) != len(w.Adjusted) {
				c.t.Fatalf("%s: %d values, want %d", name, len(got), len(w.Adjusted))
			}
			for i := range got {
				c.num(name, got[i], w.Adjusted[i])
				// 1e-12: where the adjusted value is 0.05 but for rounding, upstream compares before adjusting.
				if (got[i] <= 0.05+1e-12) != w.Reject[i] {
					c.t.Errorf("%s: rejects %d: %v", name, i, !w.Reject[i])
				}
			}
		}
	})
}

func TestVectorProportion(t *testing.T) {
	type expected struct {
		Wilson         [2]vectors.Float `json:"wilson95"`
		ClopperPearson [2]vectors.Float `json:"clopper_pearson95"`
	}
	each(t, "proportion", 80, func(c check, _ vectors.Case, in struct{ Right, N int }, want expected) {
		w, err := Wilson(in.Right, in.N, 0.95)
		if err != nil {
			c.t.Fatal(err)
		}
		c.interval("wilson", w, want.Wilson)
		cp, err := ClopperPearson(in.Right, in.N, 0.95)
		if err != nil {
			c.t.Fatal(err)
		}
		c.interval("clopper-pearson", cp, want.ClopperPearson)
	})
}

func TestVectorBootstrap(t *testing.T) {
	type input struct {
		Values     []float64
		Indices    [][]int `json:"resample_indices"`
		Confidence float64
	}
	type expected struct {
		Means            []vectors.Float  `json:"resample_means"`
		Percentile       [2]vectors.Float `json:"percentile"`
		PercentileLinear [2]vectors.Float `json:"percentile_linear"`
		StandardError    vectors.Float    `json:"standard_error"`
		Basic            [2]vectors.Float
		BCa              json.RawMessage
	}
	each(t, "bootstrap", 600, func(c check, _ vectors.Case, in input, want expected) {
		means, err := ResampleMeans(in.Values, in.Indices)
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range means {
			c.num("mean", means[i], want.Means[i])
		}
		p := Percentile(means, in.Confidence)
		c.interval("percentile", p, want.Percentile)
		c.interval("percentile (linear)", p, want.PercentileLinear)
		c.num("standard error", StandardError(means), want.StandardError)
		c.interval("basic", Basic(mean(in.Values), means, in.Confidence), want.Basic)
		bca, err := BCa(in.Values, means, in.Confidence)
		if err != nil {
			c.t.Fatal(err)
		}
		c.interval("BCa", bca, vectors.Decode[[2]vectors.Float](c.t, want.BCa))
	})
	if !math.IsNaN(Quantile(nil, 0.5)) {
		t.Error("quantile of nothing is a number")
	}
}
