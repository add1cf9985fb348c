package treegrpo

import (
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Chains is the paper's cost of the trees of a question, in whole chains (Tree-GRPO, section 3): M·(1 + L·N/2), since a
// node that is drawn lies half way on average.
func Chains(trees, expansions, rounds int) float64 {
	return float64(trees) * (1 + float64(rounds*expansions)/2)
}

// spent is what was sampled for an episode itself, and what it took over.
type spent struct{ tokens, calls, taken int }

func cost(e episode.Episode) spent {
	var s spent
	for i, t := range e.Turns {
		if i < inherited(e) {
			s.taken += t.Span.Len()
			continue
		}
		s.tokens += t.Span.Len()
		if t.Action == episode.ActionCall && t.Executed {
			s.calls++
		}
	}
	return s
}

// budget compares, per question, what the trees cost by the paper's count with what was sampled. Tokens are those that
// the policy wrote.
func (c Config) budget(forests []forest) map[string]float64 {
	m := map[string]float64{"budget/paper_chains": Chains(c.Trees, c.Expansions, c.Rounds)}
	var all, first spent
	chains := 0
	for _, f := range forests {
		for _, e := range f.sampled {
			s := cost(e)
			all = spent{all.tokens + s.tokens, all.calls + s.calls, all.taken + s.taken}
		}
		for _, t := range f.trees {
			s := cost(t.first)
			first = spent{first.tokens + s.tokens, first.calls + s.calls, 0}
			chains++
		}
	}
	if chains == 0 {
		return m
	}
	questions, perChain := float64(len(forests)), float64(first.tokens)/float64(chains)
	m["budget/paper_tokens"] = m["budget/paper_chains"] * perChain
	m["budget/paper_tool_calls"] = m["budget/paper_chains"] * float64(first.calls) / float64(chains)
	m["budget/tokens"] = float64(all.tokens) / questions
	m["budget/tool_calls"] = float64(all.calls) / questions
	if perChain > 0 {
		m["budget/chains"] = m["budget/tokens"] / perChain
	}
	if total := all.tokens + all.taken; total > 0 {
		m["budget/shared_tokens"] = float64(all.taken) / float64(total)
	}
	return m
}
