package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
)

// GoldMatch says by what a hit is compared with a gold document.
type GoldMatch string

const (
	// MatchAuto is the finest of the others by which the golds can be found in the corpus.
	MatchAuto GoldMatch = ""
	// MatchParagraph compares paragraph ids.
	MatchParagraph GoldMatch = "paragraph"
	// MatchDocument compares document ids. A gold without one is looked up by title and text, then by a title that only
	// one document has.
	MatchDocument GoldMatch = "document"
	// MatchTitle compares normalised titles.
	MatchTitle GoldMatch = "title"
)

// MaxUnresolved is the share of golds that may be missing in a corpus where nothing else is said.
const MaxUnresolved = .05

// Corpus is what resolution asks of a corpus; *corpus.Corpus has it.
type Corpus interface {
	Len() int // documents; they are numbered from 0
	ID(i int) string
	Title(i int) string
	Find(id string) (int, bool)                             // the document with this id
	ByTitle(title string) []int                             // the documents with exactly this title
	ByContent(title string, p corpus.Paragraph) (int, bool) // the first document with this title and text
	Paragraph(id string) (title string, p corpus.Paragraph, ok bool)
}

// Resolution says how the golds of a set of questions were found.
type Resolution struct {
	Match      GoldMatch // MatchAuto when there are no golds
	Golds      int
	Unresolved int
	Examples   []string // up to five unresolved golds, in words
}

// Share of golds that were not found, in [0, 1].
func (r Resolution) Share() float64 {
	if r.Golds == 0 {
		return 0
	}
	return float64(r.Unresolved) / float64(r.Golds)
}

// ResolveGold looks the golds of the questions up in a corpus and gives the questions with golds that carry the ids of
// the chosen match and no others, which is what [evidence.Match] goes by; golds that were not found keep only their
// title. Under MatchAuto the finest match that finds at least 95 % of the golds is taken, else the one that finds the most.
// A share of unresolved golds above most is an error, returned along with the resolution.
//
// [evidence.Match]: https://pkg.go.dev/github.com/forage-rl/forage/core/sdk/evidence#Match
func ResolveGold(c Corpus, questions []episode.Question, match GoldMatch, most float64) ([]episode.Question, Resolution, error) {
	candidates := []GoldMatch{MatchParagraph, MatchDocument, MatchTitle}
	if match != MatchAuto {
		if !slices.Contains(candidates, match) {
			return nil, Resolution{}, fmt.Errorf("dataset: unknown gold_match %q, want paragraph, document or title", match)
		}
		candidates = []GoldMatch{match}
	}
	titles := normalizedTitles(c, questions)
	best, bestResolved := Resolution{Unresolved: -1}, questions
	for _, m := range candidates {
		resolved, r := resolve(c, titles, questions, m)
		if r.Golds == 0 {
			return questions, Resolution{}, nil
		}
		if r.Share() <= min(MaxUnresolved, most) {
			return resolved, r, nil
		}
		if best.Unresolved < 0 || r.Unresolved < best.Unresolved {
			best, bestResolved = r, resolved
		}
	}
	if best.Share() <= most {
		return bestResolved, best, nil
	}
	return nil, best, fmt.Errorf("dataset: %d of %d gold documents (%.1f %%) are not in the corpus, matched by %s; at most %.4g %% may be missing, for example %s; is it the corpus of these questions? If it is, max_unresolved of the dataset is the share that may be missing",
		best.Unresolved, best.Golds, 100*best.Share(), best.Match, 100*most, strings.Join(best.Examples, "; "))
}

// normalizedTitles maps the normalised titles that golds have to the documents with them. Exact titles are looked up
// first; the whole corpus is only gone through for what is left.
func normalizedTitles(c Corpus, questions []episode.Question) map[string][]int {
	found := map[string][]int{}
	open := map[string]bool{}
	for _, q := range questions {
		for _, g := range q.Gold {
			n := text.NormalizeTitle(g.Title)
			if n == "" || found[n] != nil {
				continue
			}
			if docs := c.ByTitle(g.Title); len(docs) > 0 {
				found[n] = docs
				delete(open, n)
			} else {
				open[n] = true
			}
		}
	}
	if len(open) > 0 {
		for i := range c.Len() {
			if n := text.NormalizeTitle(c.Title(i)); open[n] {
				found[n] = append(found[n], i)
			}
		}
	}
	return found
}

func resolve(c Corpus, titles map[string][]int, questions []episode.Question, match GoldMatch) ([]episode.Question, Resolution) {
	r := Resolution{Match: match}
	out := slices.Clone(questions)
	for i, q := range questions {
		out[i].Gold = slices.Clone(q.Gold)
		for j, g := range q.Gold {
			r.Golds++
			found, ok := locate(c, titles, q, j, match)
			if !ok {
				r.Unresolved++
				if len(r.Examples) < 5 {
					r.Examples = append(r.Examples, fmt.Sprintf("%q of question %s", g.Title, q.ID))
				}
			}
			found.Title = g.Title
			out[i].Gold[j] = found
		}
	}
	return out, r
}

// locate gives the ids of gold j of q under a match.
func locate(c Corpus, titles map[string][]int, q episode.Question, j int, match GoldMatch) (episode.Gold, bool) {
	g := q.Gold[j]
	switch match {
	case MatchParagraph:
		if g.ParagraphID == "" {
			return episode.Gold{}, false
		}
		_, _, ok := c.Paragraph(g.ParagraphID)
		return episode.Gold{ParagraphID: g.ParagraphID}, ok
	case MatchDocument:
		if g.DocumentID != "" {
			_, ok := c.Find(g.DocumentID)
			return episode.Gold{DocumentID: g.DocumentID}, ok
		}
		if content := supportText(q, j); content != "" {
			if i, ok := c.ByContent(g.Title, corpus.Paragraph{Text: content}); ok {
				return episode.Gold{DocumentID: c.ID(i)}, true
			}
		}
		if docs := titles[text.NormalizeTitle(g.Title)]; len(docs) == 1 {
			return episode.Gold{DocumentID: c.ID(docs[0])}, true
		}
		return episode.Gold{}, false
	}
	return episode.Gold{}, len(titles[text.NormalizeTitle(g.Title)]) > 0
}

// supportText is the text of gold j where the metadata holds it.
func supportText(q episode.Question, j int) string {
	docs, _ := q.Metadata["support_docs"].([]any)
	if j >= len(docs) || len(docs) != len(q.Gold) {
		return ""
	}
	doc, _ := docs[j].(map[string]any)
	if doc["title"] != q.Gold[j].Title {
		return ""
	}
	s, _ := doc["paragraph_text"].(string)
	return s
}
