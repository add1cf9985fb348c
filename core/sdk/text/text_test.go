package text

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
)

func TestVectorHotpotAnswer(t *testing.T) {
	f := vectors.Load(t, "common", "hotpot_answer")
	for _, c := range f.Cases {
		in := vectors.Decode[struct{ Prediction, Gold string }](t, c.Input)
		want := vectors.Decode[struct {
			P         string `json:"normalized_prediction"`
			G         string `json:"normalized_gold"`
			EM, F1    float64
			Precision float64
			Recall    float64
		}](t, c.Want())
		if got := Normalize(in.Prediction); got != want.P {
			t.Errorf("%s: normalised prediction %q, want %q", c.ID, got, want.P)
		}
		if got := Normalize(in.Gold); got != want.G {
			t.Errorf("%s: normalised gold %q, want %q", c.ID, got, want.G)
		}
		got := Hotpot(in.Prediction, in.Gold)
		if got.EM != want.EM || !f.Tolerance.Close(got.F1, want.F1) || !f.Tolerance.Close(got.Precision, want.Precision) ||
			!f.Tolerance.Close(got.Recall, want.Recall) {
			t.Errorf("%s: %+v, want %+v", c.ID, got, want)
		}
		if ExactMatch(in.Prediction, in.Gold) != (want.EM == 1) {
			t.Errorf("%s: ExactMatch disagrees", c.ID)
		}
	}
}

func TestVectorMultiGoldAnswer(t *testing.T) {
	f := vectors.Load(t, "common", "multi_gold_answer")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Prediction string
			Golds      []string
		}](t, c.Input)
		want := vectors.Decode[map[string]map[string]float64](t, c.Want())
		m := MusiqueBest(in.Prediction, in.Golds)
		w := want["musique"]
		if !f.Tolerance.Close(m.EM, w["em"]) || !f.Tolerance.Close(m.F1, w["f1"]) {
			t.Errorf("%s: MuSiQue %+v, want %v", c.ID, m, w)
		}
		h := HotpotBest(in.Prediction, in.Golds)
		w = want["2wiki_v1.1"]
		for name, got := range map[string]float64{"em": h.EM, "f1": h.F1, "prec": h.Precision, "recall": h.Recall} {
			v, ok := w[name]
			if !ok || !f.Tolerance.Close(got, v) {
				t.Errorf("%s: 2Wiki %s %v, want %v (present %v)", c.ID, name, got, v, ok)
			}
		}
	}
}

func TestVectorNormalizeEM(t *testing.T) {
	f := vectors.Load(t, "search-r1", "normalize_em")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Text       *string
			Prediction string
			Golds      json.RawMessage
		}](t, c.Input)
		want := vectors.Decode[struct {
			Normalized string
			EM         int `json:"em"`
			SubEM      int `json:"sub_em"`
		}](t, c.Want())
		if in.Text != nil {
			if got := Normalize(*in.Text); got != want.Normalized {
				t.Errorf("%s: %q, want %q", c.ID, got, want.Normalized)
			}
			continue
		}
		var golds []string
		if in.Golds[0] == '"' {
			golds = []string{vectors.Decode[string](t, in.Golds)}
		} else {
			golds = vectors.Decode[[]string](t, in.Golds)
		}
		if got := ExactMatchAny(in.Prediction, golds); got != (want.EM == 1) {
			t.Errorf("%s: em %v", c.ID, got)
		}
		if got := ContainsAny(in.Prediction, golds); got != (want.SubEM == 1) {
			t.Errorf("%s: sub em %v", c.ID, got)
		}
	}
}

func TestVectorF1(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "f1")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Prediction string
			Golds      json.RawMessage
		}](t, c.Input)
		golds := []string{}
		if in.Golds[0] == '"' {
			golds = append(golds, vectors.Decode[string](t, in.Golds))
		} else {
			golds = vectors.Decode[[]string](t, in.Golds)
		}
		got := 0.
		for _, g := range golds {
			got = max(got, F1(in.Prediction, g))
		}
		// The reference rounds to four decimals.
		want := vectors.Decode[struct{ F1 float64 }](t, c.Want()).F1
		if !f.Tolerance.Close(math.Round(got*1e4)/1e4, want) {
			t.Errorf("%s: %v, want %v", c.ID, got, want)
		}
	}
}

func TestVectorFrugalRAGMetrics(t *testing.T) {
	f := vectors.Load(t, "frugalrag", "metrics")
	for _, c := range f.Cases {
		in := vectors.Decode[struct{ Prediction, Gold string }](t, c.Input)
		want := vectors.Decode[struct {
			Normalized    string
			F1, EM, Match float64
		}](t, c.Want())
		s := Squad(in.Prediction, in.Gold)
		if got := Normalize(in.Prediction); got != want.Normalized || s.EM != want.EM || !f.Tolerance.Close(s.F1, want.F1) {
			t.Errorf("%s: %q, %+v, want %+v", c.ID, got, s, want)
		}
		if got := ContainsAny(in.Prediction, []string{in.Gold}); got != (want.Match == 1) {
			t.Errorf("%s: match %v", c.ID, got)
		}
	}
}

func TestLowerAndSpaces(t *testing.T) {
	for in, want := range map[string]string{
		"ΑΣ": "ας", "ΑΣΑ": "ασα", "Σ": "σ", "Α.Σ.": "α.ς.", "Α Σ": "α σ", "ΑΣ'Β": "ασ'β", "İX": "i̇x", "ẞ": "ß", "ABC": "abc",
	} {
		if got := Lower(in); got != want {
			t.Errorf("Lower(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Fields("\x1cx\u0085y\u200bz\u3000"); !slices.Equal(got, []string{"x", "y\u200bz"}) {
		t.Errorf("Fields: %q", got)
	}
	n := 0
	for r := range rune(128) {
		if IsPunct(r) {
			n++
			if !strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
				t.Errorf("%q is not punctuation", r)
			}
		}
	}
	if n != 32 {
		t.Errorf("%d punctuation characters", n)
	}
}

func TestNormalizeTitle(t *testing.T) {
	for _, pair := range [][2]string{
		{"Mitchells &amp; Butlers", "mitchells & butlers"}, {" C++  (language)", "c++ (language)"}, {"Snow_White", "snow white"},
	} {
		if got := NormalizeTitle(pair[0]); got != pair[1] {
			t.Errorf("%q: %q, want %q", pair[0], got, pair[1])
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"", "The Σ\xff", "a_n the", "İ", "\x1c"} {
		f.Add(s, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		n := Normalize(a)
		if strings.Join(Fields(n), " ") != n {
			t.Errorf("white space left in %q", n)
		}
		for _, s := range []Score{Hotpot(a, b), Musique(a, b)} {
			if s.F1 < 0 || s.F1 > 1 || s.EM == 1 && n != Normalize(b) {
				t.Errorf("%q %q: %+v", a, b, s)
			}
		}
		if HotpotBest(a, []string{b, a}).EM != 1 {
			t.Error("an answer must equal itself")
		}
		for at, w := range Words(a) {
			if a[at:at+len(w)] != w || w == "" {
				t.Error("word offsets")
			}
		}
	})
}
