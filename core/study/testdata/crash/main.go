// Command crash is a pack of one algorithm that trains on its own episodes and whose process is killed in the middle of
// a step, or ends by itself, as often as its configuration says, for tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
)

type config struct {
	Step   int    `forage:"step" default:"2" doc:"The step in which the process ends."`
	Times  int    `forage:"times" default:"1" doc:"How often it ends."`
	Record string `forage:"record" doc:"File that counts how often it has."`
	Exit   bool   `forage:"exit" default:"false" doc:"End by itself instead of by a signal."`
}

type crash struct {
	config
	host sdk.Host
	past []byte // a byte for each step done: the algorithm's state
}

func (*crash) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	loss := objective.TokenMean(objective.Mul(objective.Field("weight", objective.Token), objective.NLL()), objective.MaskPolicy)
	o, err := objective.New("weighted", objective.TrainsPolicy, loss, nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{o}}, err
}

func (c *crash) Save(context.Context) ([]byte, error) { return c.past, nil }

func (c *crash) Load(_ context.Context, state []byte) error {
	c.past = state
	return nil
}

// Step weighs the episodes by how many steps the algorithm has seen, so that a state that is lost shows in the weights.
func (c *crash) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	if len(c.past) != req.Step {
		return sdk.StepResponse{}, fmt.Errorf("step %d with the state of step %d", req.Step, len(c.past))
	}
	c.past = append(c.past, byte(req.Step))
	ask := make([]sdk.RolloutRequest, len(req.Questions))
	for i, q := range req.Questions {
		ask[i] = sdk.RolloutRequest{RequestID: q.ID, QuestionID: q.ID, N: 2}
	}
	answers, err := c.host.Rollout(ctx, ask)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	if req.Step == c.config.Step {
		if err := c.end(); err != nil {
			return sdk.StepResponse{}, err
		}
	}
	u := sdk.Update{Objective: "weighted", MiniBatch: sdk.MiniBatch{Count: 2, Unit: sdk.UnitEpisode}, Epochs: 1, Order: sdk.OrderShuffled}
	for _, a := range answers {
		for _, ep := range a.Episodes {
			weights := make([]float32, ep.Sequences[0].ResponseLength())
			for i := range weights {
				weights[i] = float32(len(c.past))
			}
			u.Samples = append(u.Samples, sdk.Sample{EpisodeID: ep.ID, TokenFields: map[string][]float32{"weight": weights}})
		}
	}
	return sdk.StepResponse{Updates: []sdk.Update{u}}, nil
}

// end ends the process unless that has been done often enough.
func (c *crash) end() error {
	done, err := os.ReadFile(c.Record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(done) >= c.Times {
		return nil
	}
	if err := os.WriteFile(c.Record, append(done, '.'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "out of luck at step %d, time %d\n", c.config.Step, len(done)+1)
	if c.Exit {
		os.Exit(3)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {} // the signal is on its way
}

func main() {
	sdk.Serve(sdk.Pack{Name: "forage-crash", Version: "0.1.0", Algorithms: []sdk.AlgorithmPlugin{
		sdk.NewAlgorithm("crash", "Is killed in the middle of a step.", "", func(_ context.Context, c config, host sdk.Host) (sdk.Algorithm, error) {
			return &crash{config: c, host: host}, nil
		}),
	}})
}
