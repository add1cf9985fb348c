package davidgrpo

import (
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/evidence"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// InsertAt says which episode of a group gives way to the expert: the first of the lowest reward, or -1 for none. With
// mode when_needed a group in which an episode reaches full takes no expert.
func InsertAt(rewards []float64, mode string, full float64) int {
	worst := grpo.ArgMin(rewards)
	if worst < 0 || mode == "never" || mode == "when_needed" && rewards[grpo.ArgMax(rewards)] >= full {
		return -1
	}
	return worst
}

// Branch is what to continue in a group: the episode Best, just after AfterTurn (-1: from the prompt), and which
// episode a better candidate replaces. In a group of equal rewards both are the first.
type Branch struct{ Best, Worst, AfterTurn int }

// ChooseBranch finds the branch of a group, or false when an episode reaches full.
func ChooseBranch(rewards []float64, turns [][]episode.Turn, golds []episode.Gold, full float64) (Branch, bool) {
	best := grpo.ArgMax(rewards)
	if best < 0 || rewards[best] >= full {
		return Branch{}, false
	}
	return Branch{Best: best, Worst: grpo.ArgMin(rewards), AfterTurn: EvidenceGrew(golds, turns[best])}, true
}

// EvidenceGrew is the last turn that returned a gold document not returned before, or -1 when none did (David-GRPO,
// prefix continuation: the step at which coverage last rises).
func EvidenceGrew(golds []episode.Gold, turns []episode.Turn) int {
	last := -1
	for _, t := range evidence.FirstTurns(golds, turns) {
		last = max(last, t)
	}
	return last
}

// ReplaceBy is the candidate that takes the place of a group's worst episode: the first of the highest reward, if that
// is above the group's best; else -1.
func ReplaceBy(best float64, candidates []float64) int {
	if i := grpo.ArgMax(candidates); i >= 0 && candidates[i] > best {
		return i
	}
	return -1
}
