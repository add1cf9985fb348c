package ppo

import (
	"errors"
	"fmt"
	"math"
)

// GAE is generalised advantage estimation (Schulman et al. 2016, eq. 16): with δ[t] = r[t] + γ·v[t+1] - v[t] and 0 as the
// value after the last token, the advantage is A[t] = δ[t] + γ·λ·A[t+1] and the return A[t] + v[t].
//
// values[t] is the critic's value before token t. mask, if not nil, takes tokens out of the recursion as if they were not
// there: neither their value nor their length counts, their advantage is 0 and their return is their value. A reward on
// such a token counts on the last token before it that is in the mask (or is lost without one). The arrays are of one
// length.
func GAE(rewards, values []float64, mask []bool, gamma, lambda float64) (advantages, returns []float64) {
	advantages, returns = make([]float64, len(rewards)), make([]float64, len(rewards))
	next, advantage, skipped := 0., 0., 0.
	for t := len(rewards) - 1; t >= 0; t-- {
		if mask != nil && !mask[t] {
			skipped += rewards[t]
			returns[t] = values[t]
			continue
		}
		delta := rewards[t] + skipped + gamma*next - values[t]
		advantage = delta + gamma*lambda*advantage
		next, skipped = values[t], 0
		advantages[t], returns[t] = advantage, advantage+values[t]
	}
	return advantages, returns
}

// ErrTooFewTokens says that a batch has fewer than two tokens, which have no spread to whiten by.
var ErrTooFewTokens = errors.New("fewer than two tokens to take a spread of")

// whitenEpsilon is added to the variance that whitening divides by the root of.
const whitenEpsilon = 1e-8

// Whiten gives (x - mean) / sqrt(variance + 1e-8) with mean and variance (n-1 in the denominator) over the masked tokens
// of all rows together. Tokens outside the masks are shifted and scaled alike. masks nil takes all tokens. Fewer than two
// tokens give [ErrTooFewTokens].
func Whiten(batch [][]float64, masks [][]bool) ([][]float64, error) {
	in := func(i, t int) bool { return masks == nil || masks[i][t] }
	sum, n := 0., 0
	for i, row := range batch {
		for t, x := range row {
			if in(i, t) {
				sum += x
				n++
			}
		}
	}
	if n < 2 {
		return nil, fmt.Errorf("whiten advantages of %d sequences: %d tokens: %w", len(batch), n, ErrTooFewTokens)
	}
	mean, squares := sum/float64(n), 0.
	for i, row := range batch {
		for t, x := range row {
			if in(i, t) {
				squares += (x - mean) * (x - mean)
			}
		}
	}
	deviation := math.Sqrt(squares/float64(n-1) + whitenEpsilon)
	out := make([][]float64, len(batch))
	for i, row := range batch {
		out[i] = make([]float64, len(row))
		for t, x := range row {
			out[i][t] = (x - mean) / deviation
		}
	}
	return out, nil
}

// KLInReward gives rewards less coefficient·(old_logp - ref_logp) on the policy's own tokens (the k1 estimate of the
// divergence inside the reward: Ouyang et al. 2022, eq. 2), and the mean of that difference over those tokens, 0 where
// there are none. The arrays are of one length.
func KLInReward(rewards, oldLogP, refLogP []float64, policy []bool, coefficient float64) (penalised []float64, kl float64) {
	penalised = make([]float64, len(rewards))
	n := 0
	for t, r := range rewards {
		penalised[t] = r
		if policy[t] {
			d := oldLogP[t] - refLogP[t]
			penalised[t] -= coefficient * d
			kl += d
			n++
		}
	}
	if n > 0 {
		kl /= float64(n)
	}
	return penalised, kl
}

// Placed is a reward at a response token.
type Placed struct {
	At    int // response token, from 0
	Value float64
}

// Rewards puts total on the last of n response tokens and adds further rewards where they belong. A place outside the
// response is an error; without tokens there are no rewards.
func Rewards(n int, total float64, further ...Placed) ([]float64, error) {
	rewards := make([]float64, n)
	if n > 0 {
		rewards[n-1] = total
	}
	for _, p := range further {
		if p.At < 0 || p.At >= n {
			return nil, fmt.Errorf("a reward is placed at response token %d of %d", p.At, n)
		}
		rewards[p.At] += p.Value
	}
	return rewards, nil
}
