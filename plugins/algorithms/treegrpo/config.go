package treegrpo

import (
	"github.com/forage-rl/forage/core/sdk/diag"
)

// Config is the configuration of the algorithm.
type Config struct {
	Trees      int `forage:"trees" default:"2" min:"1" doc:"Trees grown per question (M)." source:"Tree-GRPO (arXiv:2509.21240), training settings"`
	Expansions int `forage:"expansions" default:"2" min:"0" doc:"Nodes of each tree that a new branch grows from, per round (N). They are drawn uniformly and with replacement among the prompt and all turns that ended no episode." source:"Tree-GRPO (arXiv:2509.21240), training settings"`
	Rounds     int `forage:"rounds" default:"1" min:"0" doc:"Rounds of expansion (L). Later rounds also draw nodes that earlier ones grew." source:"Tree-GRPO (arXiv:2509.21240), training settings"`
	Leaves     int `forage:"leaves" default:"3" min:"1" doc:"Leaves of each tree that are trained on (K), drawn at random; at most 1 + rounds × expansions, which all trees have." source:"Tree-GRPO (arXiv:2509.21240), training settings"`

	Advantage string `forage:"advantage" default:"tree" enum:"tree,intra,inter,tree_2norm,tree_per_token,rloo,grpo,none" doc:"tree: z-score of the reward among all leaves of the question plus the one among the leaves of the tree. inter, intra: one of the two alone. tree_2norm: the first, standardised again within the tree. tree_per_token: z-scores over all tokens, where the last one of an episode has its reward and the others 0. rloo: minus the mean of the question's other leaves. grpo: as inter, but a question of one leaf has its reward. none: the reward itself, on the last token." source:"Tree-GRPO (arXiv:2509.21240), section 3"`

	PolicyLoss         string  `forage:"policy_loss" default:"token" enum:"token,sequence,turn" doc:"What the clipped ratio is taken of: each token; the whole episode, as in GSPO (geometric mean, no dual clip); each turn (geometric mean)." source:"Tree-GRPO release"`
	ClipLow            float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"Tree-GRPO (arXiv:2509.21240), training settings"`
	ClipHigh           float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"Tree-GRPO (arXiv:2509.21240), training settings"`
	DualClip           float64 `forage:"dual_clip" default:"3" min:"0" doc:"Bounds the loss of a negative advantage at this multiple of it; 0 turns that off." source:"default (not in the paper)"`
	KL                 KL      `forage:"kl" doc:"Divergence from the policy that the stage started from, added to the loss."`
	EntropyCoefficient float64 `forage:"entropy_coefficient" default:"0.001" min:"0" doc:"Weight of the entropy bonus; the released code has it on." source:"default (not in the paper)"`
	Aggregation        string  `forage:"aggregation" default:"token_mean" enum:"token_mean,sequence_mean,question_mean" doc:"token_mean, as released: mean over the policy tokens of a mini-batch; sequence_mean, as in the paper's formula: mean over episodes of each one's mean; question_mean: mean over questions of that." source:"default (not in the paper)"`

	MiniBatch   int     `forage:"mini_batch" default:"64" min:"0" doc:"Questions per optimizer step; 0 takes all of a training step at once." source:"Tree-GRPO release"`
	Updates     int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of questions. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"Tree-GRPO release"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// KL is the divergence term.
type KL struct {
	Kind        string  `forage:"kind" default:"k3" enum:"none,k1,k2,k3" doc:"Estimator: k3 is exp(-d) - 1 + d of the log-ratio d, k2 is d²/2, k1 is d." source:"GRPO (arXiv:2402.03300), eq. 4"`
	Coefficient float64 `forage:"coefficient" default:"0.001" min:"0" doc:"Weight of the divergence." source:"Tree-GRPO (arXiv:2509.21240), training settings"`
}

func (c Config) usesReference() bool { return c.KL.Kind != "none" && c.KL.Coefficient != 0 }

// grownLeaves is the number of leaves of every tree after its rounds.
func (c Config) grownLeaves() int { return 1 + c.Rounds*c.Expansions }

// Validate refuses more leaves than trees grow, and warns of groups that teach less than they seem to.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Leaves > c.grownLeaves() {
		ds.Errorf(diag.Attr("leaves"), "More leaves than grow", "A tree has 1 + rounds × expansions = %d leaves, and leaves = %d are to be kept. Lower leaves, or grow more.", c.grownLeaves(), c.Leaves)
	}
	if c.Advantage == "tree" && c.Leaves == 1 {
		ds.Warnf(diag.Attr("leaves"), "One leaf per tree", "A leaf alone in its tree has nothing to be compared with there: only the comparison within the question is left.")
	}
	if c.Advantage == "tree" && c.Trees == 1 && c.Leaves > 1 {
		ds.Warnf(diag.Attr("trees"), "One tree per question", "With one tree both comparisons are the same, and the advantage is twice that of advantage = \"inter\".")
	}
	if c.Trees*c.Leaves == 1 {
		ds.Warnf(diag.Attr("trees"), "Group of one", "One leaf per question has nothing to be compared with. Use more trees or leaves.")
	}
	return ds
}
