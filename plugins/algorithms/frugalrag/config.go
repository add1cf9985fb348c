// Package frugalrag is FrugalRAG (arXiv:2507.07634) in phases, each a stage of its own:
//
//   - explore (a produce stage): hop by hop, several prompts are tried and the first candidate of the highest recall is
//     kept; most questions are explored by agents that cannot finish. The chosen episodes are the artefact that plain
//     supervised fine-tuning learns from, under the policy's own prompt.
//   - tau (a produce stage): the recall that the policy now reaches on each question without finishing, as a table. A
//     reward reads it as an annotation.
//   - stop: GRPO over hops. All hops of an episode share its advantage, and the losses of the hops add up.
package frugalrag

import (
	"github.com/forage-rl/forage/core/sdk/diag"
)

// Phases.
const (
	phaseExplore = "explore"
	phaseTau     = "tau"
	phaseStop    = "stop"
)

// Config is the configuration of the algorithm.
type Config struct {
	Phase string `forage:"phase" default:"stop" enum:"explore,tau,stop" doc:"explore: choose the best hops of several prompts, for a produce stage. tau: the recall that is reached on each question, for a produce stage whose agent cannot finish. stop: reinforcement learning of when to stop." source:"FrugalRAG (arXiv:2507.07634), section 4"`

	Artefact        string   `forage:"artefact" default:"" doc:"Name of what a produce stage writes, as its produce has it; empty is the phase's: hops or tau." source:"default (not in the paper)"`
	Agents          []string `forage:"agents" default:"" doc:"Agents of the experiment whose prompts are tried on each hop of a question that may finish; none is the stage's own. The release tries 8 prompts." source:"FrugalRAG (arXiv:2507.07634), section 4.1"`
	AgentsNoFinish  []string `forage:"agents_no_finish" default:"" doc:"Agents whose prompts are tried on each hop of the other questions; they should have no tool that finishes. Needed where no_finish_ratio is above 0." source:"FrugalRAG (arXiv:2507.07634), section 4.1"`
	Candidates      int      `forage:"candidates" default:"1" min:"1" doc:"Candidates sampled from each prompt on each hop." source:"FrugalRAG, released code (3056d62)"`
	MaxIters        int      `forage:"max_iters" default:"5" min:"1" doc:"Hops of an explored episode after the agent's first search." source:"FrugalRAG (arXiv:2507.07634), section 5"`
	NoFinishRatio   float64  `forage:"no_finish_ratio" default:"0.9" min:"0" max:"1" doc:"Share of the questions that are explored without finishing. It is drawn by question, so both runs of the paper are one." source:"FrugalRAG (arXiv:2507.07634), section 4.1"`
	MixSeed         int      `forage:"mix_seed" default:"663" doc:"Seed of the draw of those questions." source:"FrugalRAG, released code (3056d62)"`
	RecallSource    string   `forage:"recall_source" default:"" doc:"Reward source of the stage that measures recall; empty counts the gold documents that were found, as metrics do." source:"default (not in the paper)"`
	RecallComponent string   `forage:"recall_component" default:"recall" doc:"Component of that source by which candidates are compared: recall, or coverage where golds are texts (MuSiQue, 2WikiMultiHopQA)." source:"default (not in the paper)"`
	Samples         int      `forage:"samples" default:"1" min:"1" doc:"Episodes per question that the tau phase averages over." source:"default (not in the paper)"`

	GroupSize        int     `forage:"group_size" default:"8" min:"1" doc:"Episodes sampled per question." source:"FrugalRAG (arXiv:2507.07634), training settings"`
	NormalizeStd     bool    `forage:"normalize_std" default:"true" doc:"Divide advantages by the standard deviation of the group's rewards." source:"GRPO (arXiv:2402.03300), section 4.1.2"`
	AdvantageEpsilon float64 `forage:"advantage_epsilon" default:"0.0001" min:"0" doc:"Added to that standard deviation." source:"FrugalRAG, released code (3056d62)"`
	ClipLow          float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"FrugalRAG, released code (3056d62)"`
	ClipHigh         float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"FrugalRAG, released code (3056d62)"`
	KL               KL      `forage:"kl" doc:"Divergence from the policy that the stage started from, added to the loss."`
	MiniBatch        int     `forage:"mini_batch" default:"0" min:"0" doc:"Episodes per optimizer step; 0 takes all of a training step at once." source:"default (not in the paper)"`
	Updates          int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs           int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"FrugalRAG, released code (3056d62)"`
	Temperature      float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// KL is the divergence term.
type KL struct {
	Kind        string  `forage:"kind" default:"k3" enum:"none,k1,k2,k3" doc:"Estimator: k3 is exp(-d) - 1 + d of the log-ratio d, k2 is d²/2, k1 is d." source:"GRPO (arXiv:2402.03300), eq. 4"`
	Coefficient float64 `forage:"coefficient" default:"0.1" min:"0" doc:"Weight of the divergence." source:"FrugalRAG (arXiv:2507.07634), training settings"`
}

func (c Config) usesReference() bool { return c.KL.Kind != "none" && c.KL.Coefficient != 0 }

// artefact is the name of what a phase writes.
func (c Config) artefact() string {
	switch {
	case c.Artefact != "":
		return c.Artefact
	case c.Phase == phaseTau:
		return "tau"
	}
	return "hops"
}

// Validate checks what the settings need of each other.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Phase == phaseExplore && c.NoFinishRatio > 0 && len(c.AgentsNoFinish) == 0 {
		ds.Errorf(diag.Attr("agents_no_finish"), "No agents", "With no_finish_ratio above 0 the explore phase needs agents_no_finish, names of agents without a tool that finishes; or set no_finish_ratio = 0.")
	}
	if c.Phase == phaseStop && c.GroupSize == 1 {
		ds.Warnf(diag.Attr("group_size"), "Group of one", "A group of one has nothing to be compared with: its advantage is 0. Use 2 or more.")
	}
	return ds
}
