package sdk

import (
	"context"
	"math/rand/v2"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// Algorithm decides what is sampled in a training step and what is learnt from it. It holds no tokens and no weights:
// it asks the host for episodes and answers with updates that refer to them by id.
type Algorithm interface {
	// Plan is called once per stage, before anything runs, and by "forage plan" and "forage plugin describe" to show what
	// the stage will do: it depends on the configuration and the request alone.
	Plan(ctx context.Context, req PlanRequest) (PlanResponse, error)
	// Step is called once per training step. It calls back into the host, so it may take long; the host watches that
	// it goes on, not how long it takes.
	Step(ctx context.Context, req StepRequest) (StepResponse, error)
}

// Stateful is for algorithms that carry state from step to step. The state is part of every checkpoint.
type Stateful interface {
	// Save gives the state as it is after the last step.
	Save(ctx context.Context) ([]byte, error)
	// Load puts a saved state back, before the first step after a restart.
	Load(ctx context.Context, state []byte) error
}

// PlanRequest describes the stage to plan.
type PlanRequest struct {
	Stage      string // its name
	Steps      int    // of the stage
	Questions  int    // per step
	HasExperts bool   // StepRequest.Experts will not be empty
	// Produce is true for a stage that makes no updates but writes an artefact.
	Produce bool
}

// PlanResponse is the plan of a stage.
type PlanResponse struct {
	// Objectives are the losses that updates name; see [objective.New].
	Objectives []objective.Objective
	// Critic asks for a second network with a scalar head, initialised from the policy.
	Critic *Critic
	// Reference is the policy that RefLogP is taken from: ReferenceStageStart, ReferenceBase, or "" for none.
	Reference string
	// TrainsObservations declares that an objective's mask reaches text that the policy did not write. Without it
	// such an objective is refused.
	TrainsObservations bool
	// DefaultsNotInPaper lists settings in force that the method's paper does not give.
	DefaultsNotInPaper []string
}

const (
	ReferenceStageStart = "stage_start" // the checkpoint that the stage started from
	ReferenceBase       = "base"        // the policy that the run started from
)

// Critic configures a value network. Its body starts as the policy that the stage starts from and its head at zero, or
// with optimizer_state = "keep" it is that of the stage before; see [Host.Values] for what it says.
type Critic struct {
	Warmup int // steps in which only the critic is updated
}

// StepRequest starts a training step.
type StepRequest struct {
	Step      int // 0-based within the stage
	Of        int // steps of the stage
	Questions []episode.Question
	// Seed is the step's own, from the seed of the run; see [StepRequest.Rand].
	Seed uint64
	// Experts holds the expert episodes of the questions, without texts: none, one or several of each. What an earlier
	// stage wrote as an artefact has the rewards of that stage; what another agent asked for is of origin rerendered.
	Experts []episode.Episode
}

// Rand gives random numbers for a decision of the step: the same for the same name, whatever else was drawn before. An
// algorithm that draws from elsewhere makes runs that cannot be repeated.
func (r StepRequest) Rand(name ...string) *rand.Rand {
	key := rng.New(r.Seed)
	for _, part := range name {
		key = key.WithString(part)
	}
	return rand.New(key.Source())
}

// StepResponse is what a step learnt. Updates run in order.
type StepResponse struct {
	Updates []Update
	// UsedRewards reports the reward behind each trained episode where it is not the episode's own total, so that
	// logged rewards equal used rewards.
	UsedRewards map[string]UsedReward
	Artefacts   []Artefact // of a produce stage, which has no updates
	Metrics     map[string]float64
}

// UsedReward is the reward that an advantage was computed from.
type UsedReward struct {
	Value float64
	Turns []float64 // one for each turn of the episode, or none
}

// Artefact is what a step of a produce stage adds to an artefact that the stage declares: episodes or values by
// question, always the same of the two.
type Artefact struct {
	Name string
	// EpisodeIDs are episodes of the step, each once. Those and their questions are kept with tokens, texts and rewards.
	EpisodeIDs []string
	// ByQuestion holds values per question id, merged into Question.Metadata of the stages that name the artefact as
	// annotations. Values are of JSON types.
	ByQuestion map[string]map[string]any
}

// Update trains on samples with one objective of the plan.
type Update struct {
	Objective string   // the name of one of the plan's
	Samples   []Sample // at least one; without any, leave the update out
	MiniBatch MiniBatch
	// Epochs is the number of passes over the samples; 0 means 1.
	Epochs int
	// Temperature divides the logits before log-probabilities are taken; 0 means the sampling temperature.
	Temperature float64
	// Order is OrderGiven (default) or OrderShuffled (by the run's seed).
	Order string
}

// Orders of samples in an update.
const (
	OrderGiven    = "given"
	OrderShuffled = "shuffled"
)

// MiniBatch says how many units make one optimizer step. Units are never split. Count 0 means all at once.
type MiniBatch struct {
	Count int
	Unit  string // UnitQuestion, UnitEpisode or UnitSequence
}

// Units of a mini-batch.
const (
	UnitQuestion = "question"
	UnitEpisode  = "episode"
	UnitSequence = "sequence"
)

// Sample is one sequence to train on, with the numbers that the objective reads.
type Sample struct {
	EpisodeID string
	Sequence  int // index into Episode.Sequences; its response must not be empty
	// TokenFields are arrays over the response: one number for each token after the prompt, so of the length that
	// [episode.Sequence.ResponseLength] gives. SequenceFields are one number. Each must hold every field of its level
	// that the objective reads, and be finite.
	TokenFields    map[string][]float32
	SequenceFields map[string]float64
	// Group names the samples that group-level reductions combine; "" means the question.
	Group string
}
