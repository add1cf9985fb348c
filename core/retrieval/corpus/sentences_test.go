package corpus

import (
	"slices"
	"strings"
	"testing"
)

// The bounds are marked with |. The last group was written before it was tried and counts how well the rules carry over.
func TestSentences(t *testing.T) {
	for _, text := range []string{
		"He was born in 1950.| He died in 1990.",
		"Dr. Smith met Mrs. Jones.| They talked.",
		"J. R. R. Tolkien wrote it.| It sold well.",
		"He moved to the U.S. in 1990.| He stayed.",
		"He lived in the U.S.| The next year he left.",
		"Washington D.C. is a city.",
		"Yahoo! was founded in 1994.| It grew.",
		"St. Louis lies on the Mississippi.| No. 5 is a perfume.",
		"It cost $3.50 (about 2.80 euros).| \"Really?\" he asked.",
		"東京は首都です。|大阪は違います。",
		"Acme Inc. was sold.| Acme Inc.| The firm closed.",
		"One line\n|Another line",
		"",
	} {
		check(t, text)
	}
}

func check(t *testing.T, marked string) {
	t.Helper()
	var want []string
	for part := range strings.SplitSeq(marked, "|") {
		if part = strings.TrimSpace(part); part != "" {
			want = append(want, part)
		}
	}
	text := strings.ReplaceAll(marked, "|", "")
	var got []string
	for start, s := range splitSentences(text) {
		if text[start:start+len(s)] != s {
			t.Errorf("%q: sentence %q is not at %d", text, s, start)
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, expected %q", got, want)
	}
}

// heldOut was written before the splitter was run on it.
var heldOut = []string{
	"Gen. Robert E. Lee surrendered at Appomattox.| Grant accepted.",
	"The album, feat. Jay-Z, was released by Roc-A-Fella Records, Inc. in 2001.",
	"She studied at the University of Washington, Seattle.| In 1999, she won the Nobel Prize.",
	"The film stars Robert Downey Jr. and Gwyneth Paltrow.| It was directed by Jon Favreau.",
	"He scored 3.5 points per game.| That was a record!| Nobody matched it.",
	"George W. Bush (born July 6, 1946) is an American politician.",
	"Beethoven's Op. 27 No. 2 is the Moonlight Sonata.| Liszt played it.",
	"Is it true?| Yes.| \"Maybe not,\" she said.",
	"The match ended at 5 p.m. local time.| Spectators left.",
	"Smith v. Jones was decided in 1803.| Marshall wrote the opinion.",
	"Mt. Everest is 8,849 m high.| Sir Edmund Hillary climbed it.",
	"The band Wham! broke up in 1986.| Michael went solo.",
	"The company was founded by John D. Rockefeller.| He became rich.",
	"See e.g. Brown et al. 1998 for details.| Others disagree.",
	"¿Qué es?| Es un libro.",
	"The ship sank ca. 1715 near St. Lucie, Florida.",
	"His rank was Lt. Col. in the army.| Later he was Brig. Gen. in the reserve.",
	"Panic! at the Disco is a band.| Brendon Urie sings.",
	"It has approx. 300 inhabitants.| Most are farmers.",
	"He played for Manchester United F.C. from 1992 to 2003.",
	"Vitamin C.| It is an acid.",
	"The S&P 500 fell 2.3%.| Analysts blamed Apple Inc. and others.",
}

func TestSentencesHeldOut(t *testing.T) {
	right := 0
	for _, marked := range heldOut {
		var want, got []string
		for part := range strings.SplitSeq(marked, "|") {
			want = append(want, strings.TrimSpace(part))
		}
		for _, s := range splitSentences(strings.ReplaceAll(marked, "|", "")) {
			got = append(got, s)
		}
		if slices.Equal(got, want) {
			right++
		} else {
			t.Logf("got %q", got)
		}
	}
	t.Logf("%d of %d texts are cut right", right, len(heldOut))
	if right < len(heldOut)*4/5 {
		t.Errorf("%d of %d texts are cut right", right, len(heldOut))
	}
}
