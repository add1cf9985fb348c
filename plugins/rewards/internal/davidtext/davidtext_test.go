package davidtext

import (
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

func TestVectorNormalizeAnswer(t *testing.T) {
	for _, c := range vectors.Load(t, "david-grpo", "normalize_answer").Cases {
		in := vectors.Decode[struct{ Text string }](t, c.Input)
		want := vectors.Decode[struct{ Normalized string }](t, c.Want())
		if got := NormalizeAnswer(in.Text); got != want.Normalized {
			t.Errorf("%s: %q, want %q", c.ID, got, want.Normalized)
		}
	}
}

func TestVectorNormalizeTitle(t *testing.T) {
	for _, c := range vectors.Load(t, "david-grpo", "normalize_title").Cases {
		in := vectors.Decode[struct{ Title string }](t, c.Input)
		want := vectors.Decode[struct{ Normalized string }](t, c.Want())
		if got := NormalizeTitle(in.Title); got != want.Normalized {
			t.Errorf("%s: %q, want %q", c.ID, got, want.Normalized)
		}
	}
}

func TestGradeIsBounded(t *testing.T) {
	for _, c := range []struct {
		answer string
		golds  []string
		want   float64
	}{
		{"Paris", []string{"paris"}, 1}, {"in Paris", []string{"Paris"}, .5}, {"x", []string{"y"}, 0}, {"x", nil, 0},
		{"x", []string{"", "  "}, 0}, {"", []string{"Paris"}, .5}, {"x", []string{"y", "X!"}, 1}, {"x", []string{"the"}, .5},
	} {
		if got := Best(Grade, c.answer, c.golds); got != c.want {
			t.Errorf("%q against %q: %v, want %v", c.answer, c.golds, got, c.want)
		}
	}
}

func FuzzGrade(f *testing.F) {
	f.Add("The One", "1")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		if g := Grade(a, b); g != 0 && g != .5 && g != 1 {
			t.Errorf("grade %v", g)
		}
		if Grade(a, a) != 1 {
			t.Errorf("%q is not worth 1 against itself", a)
		}
		if n := NormalizeTitle(a); NormalizeTitle(n) != n {
			t.Errorf("normalising the title %q twice differs", a)
		}
		if slices.Contains(Titles(a), "") {
			t.Error("an empty title")
		}
	})
}
