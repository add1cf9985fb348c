// Package logits takes tests of losses from logits to what an objective reads and from its gradient back to the logits,
// in float64 and without a model.
package logits

import "math"

// Policy is a softmax policy at the tokens of one response.
type Policy struct {
	LogP    []float64 // of the label at each token
	Entropy []float64

	probs       [][]float64
	labels      []int
	temperature float64
}

// New computes the policy of logits, one row per token, divided by temperature.
func New(rows [][]float64, labels []int, temperature float64) Policy {
	p := Policy{labels: labels, temperature: temperature}
	for t, z := range rows {
		top := math.Inf(-1)
		for _, v := range z {
			top = max(top, v/temperature)
		}
		sum := 0.
		for _, v := range z {
			sum += math.Exp(v/temperature - top)
		}
		normalizer, entropy, probs := top+math.Log(sum), 0., make([]float64, len(z))
		for k, v := range z {
			logp := v/temperature - normalizer
			probs[k] = math.Exp(logp)
			if probs[k] > 0 {
				entropy -= probs[k] * logp
			}
		}
		p.LogP, p.Entropy, p.probs = append(p.LogP, z[labels[t]]/temperature-normalizer), append(p.Entropy, entropy), append(p.probs, probs)
	}
	return p
}

// Gradient takes the gradient with respect to LogP and Entropy back to the logits.
func (p Policy) Gradient(logp, entropy []float64) [][]float64 {
	grad := make([][]float64, len(p.probs))
	for t, probs := range p.probs {
		grad[t] = make([]float64, len(probs))
		for k, q := range probs {
			grad[t][k] = -logp[t] * q
			if k == p.labels[t] {
				grad[t][k] += logp[t]
			}
			if q > 0 {
				grad[t][k] -= entropy[t] * q * (math.Log(q) + p.Entropy[t])
			}
			grad[t][k] /= p.temperature
		}
	}
	return grad
}
