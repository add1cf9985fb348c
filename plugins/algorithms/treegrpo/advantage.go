package treegrpo

import (
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Leaf places a leaf in its groups: the question and the tree that it grew in.
type Leaf struct{ Question, Tree int }

// standardise is the z-score of values.
func standardise(values []float64) []float64 { return grpo.Standardise(values, true, grpo.Epsilon) }

// within applies f to each group of values and puts the results in the places of the values.
func within(values []float64, group func(i int) int, f func([]float64) []float64) []float64 {
	members := map[int][]int{}
	for i := range values {
		members[group(i)] = append(members[group(i)], i)
	}
	out := make([]float64, len(values))
	for _, list := range members {
		part := make([]float64, len(list))
		for k, i := range list {
			part[k] = values[i]
		}
		for k, v := range f(part) {
			out[list[k]] = v
		}
	}
	return out
}

func add(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

// Estimators whose advantages differ from token to token.
const (
	treePerToken = "tree_per_token"
	noEstimator  = "none"
)

// perToken says whether an estimator gives a number per token, see [TokenAdvantages].
func perToken(estimator string) bool { return estimator == treePerToken || estimator == noEstimator }

// Advantages gives the advantage of each leaf from its reward (Tree-GRPO, arXiv:2509.21240, section 3): in the estimator
// tree the z-score over all leaves of the question plus the z-score over the leaves of the tree.
func Advantages(estimator string, rewards []float64, leaves []Leaf) []float64 {
	question, tree := func(i int) int { return leaves[i].Question }, func(i int) int { return leaves[i].Tree }
	usual := func(v []float64) []float64 { return grpo.Advantages(v, true) }
	switch estimator {
	case "inter":
		return within(rewards, question, standardise)
	case "intra":
		return within(rewards, tree, standardise)
	case "tree_2norm":
		return within(within(rewards, question, usual), tree, usual)
	case "rloo":
		return within(rewards, question, leaveOneOut)
	case "grpo":
		return within(rewards, question, usual)
	}
	return add(within(rewards, question, standardise), within(rewards, tree, standardise))
}

// leaveOneOut is each value minus the mean of the others (RLOO, Ahmadian et al. 2024). One alone is its value.
func leaveOneOut(values []float64) []float64 {
	if len(values) == 1 {
		return values
	}
	return grpo.LeaveOneOut(values)
}

// TokenAdvantages gives the advantage of each token of each leaf. rewards holds a number per token of the leaf. The
// estimator none takes the rewards as they are; tree_per_token takes the z-score over all tokens of the question plus
// the one over all tokens of the tree.
func TokenAdvantages(estimator string, rewards [][]float64, leaves []Leaf) [][]float64 {
	if estimator == noEstimator {
		return rewards
	}
	var flat []float64
	var owner []int
	for i, row := range rewards {
		for _, v := range row {
			flat, owner = append(flat, v), append(owner, i)
		}
	}
	sum := add(within(flat, func(i int) int { return leaves[owner[i]].Question }, standardise),
		within(flat, func(i int) int { return leaves[owner[i]].Tree }, standardise))
	out := make([][]float64, len(rewards))
	for i, v := range sum {
		out[owner[i]] = append(out[owner[i]], v)
	}
	return out
}
