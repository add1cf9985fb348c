package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/policy/tokenizer"
)

// TestVocabularyOfTwoTokenNames: a fresh policy can be given the words of a world whose names have two.
func TestVocabularyOfTwoTokenNames(t *testing.T) {
	w, err := minihop.NewWorld(1, minihop.Options{TwoTokenNames: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, knows := range map[string]bool{"minihop": false, "minihop/names": true, "minihop/json/names": true} {
		files, err := initialTokenizer(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for file, data := range files {
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tok, err := tokenizer.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		unknown := 0
		for _, d := range w.Documents() {
			n, _ := tok.Unknown(d.Text)
			unknown += n
		}
		if (unknown == 0) != knows {
			t.Errorf("%s: %d words of the documents are unknown", name, unknown)
		}
	}
	if _, err := initialTokenizer("minihop/nothing", nil); err == nil {
		t.Error("an unknown protocol was taken")
	}
}

// TestSampleIsSpread: all of a short list, and of a long one some texts from all over it.
func TestSampleIsSpread(t *testing.T) {
	number := func(i int) string { return strings.Repeat("x", i) }
	if got := slices.Collect(sample(3, number)); !slices.Equal(got, []string{"", "x", "xx"}) {
		t.Errorf("got %q", got)
	}
	got := slices.Collect(sample(10*vocabularySample, number))
	if len(got) != vocabularySample || len(got[1]) != 10 || len(got[vocabularySample-1]) != 10*(vocabularySample-1) {
		t.Errorf("%d texts, the second is number %d", len(got), len(got[1]))
	}
	if len(slices.Collect(sample(0, number))) != 0 {
		t.Error("texts of nothing")
	}
}
