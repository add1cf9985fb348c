// Package grasp is the reward of GRASP (arXiv:2607.10463): the answer, what was read, whether both searches found
// something, and how few turns it took.
package grasp

import (
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/evidencecoverage"
)

// Terms are the parts of the reward, each in [0, 1].
type Terms struct {
	// Answer is R_A, the token F1 of the answer with the best gold answer.
	Answer float64
	// Read is R_R, the F1 of the set of documents that were read with the set of gold documents; 0 when none was read.
	Read float64
	// Search is R_S: 1 when the search by meaning and the search by words have both found a gold document.
	Search float64
	// Efficiency is R_E: high for few turns, and 0 unless Answer is greater than θ.
	Efficiency float64
}

// Tools are the names under which an agent calls GRASP's tools.
type Tools struct{ Semantic, Keyword, Read string }

// Horizon is what efficiency is measured against.
type Horizon struct {
	Turns int // T_max, with the turn that answers
	// FromOne gives (T_max − T) / (T_max − 1), which is 1 for one turn, in place of 1 − T / T_max.
	FromOne bool
	Theta   float64 // θ
}

// Efficiency is the share of the horizon that turns leave, in [0, 1].
func (h Horizon) Efficiency(turns int) float64 {
	left, of := float64(h.Turns-turns), float64(h.Turns)
	if h.FromOne {
		of--
	}
	if of <= 0 {
		return 0
	}
	return min(1, max(0, left/of))
}

// Score gives the terms of an episode. Every turn counts, also an invalid one and the one that answers; a call that
// failed has found and read nothing.
func Score(e episode.Episode, q episode.Question, tools Tools, h Horizon) Terms {
	var t Terms
	if e.Answer != nil {
		t.Answer = text.SquadBest(*e.Answer, q.Answers).F1
	}
	read := found(q, e, tools.Read)
	if n := read.Returned + read.Gold; read.Returned > 0 && n > 0 {
		t.Read = 2 * float64(read.Found) / float64(n)
	}
	if found(q, e, tools.Semantic).Found > 0 && found(q, e, tools.Keyword).Found > 0 {
		t.Search = 1
	}
	if t.Answer > h.Theta {
		t.Efficiency = h.Efficiency(len(e.Turns))
	}
	return t
}

// found counts over what one tool has returned.
func found(q episode.Question, e episode.Episode, tool string) evidencecoverage.Coverage {
	var turns []episode.Turn
	for _, t := range e.Turns {
		if t.Tool == tool && t.Error == "" {
			turns = append(turns, t)
		}
	}
	c, _ := evidencecoverage.FromHits(q.Gold, turns)
	return c
}

// Weights of the terms in the total; the answer's is 1.
type Weights struct{ Read, Search, Efficiency float64 }

// Total is R = R_A + α R_R + β R_S + γ R_E.
func (w Weights) Total(t Terms) float64 {
	return t.Answer + w.Read*t.Read + w.Search*t.Search + w.Efficiency*t.Efficiency
}
