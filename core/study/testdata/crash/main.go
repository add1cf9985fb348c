// Command crash is a pack of one algorithm that dies in its second step, for a test.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
)

type config struct{}

type crash struct{ host sdk.Host }

func (crash) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	o, err := objective.New("nll", objective.TrainsPolicy, objective.TokenMean(objective.NLL(), objective.MaskPolicy), nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{o}}, err
}

func (c crash) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	if req.Step == 1 {
		fmt.Fprintln(os.Stderr, "out of luck at step 1")
		os.Exit(3)
	}
	return sdk.StepResponse{}, nil
}

func main() {
	sdk.Serve(sdk.Pack{Name: "forage-crash", Version: "0.1.0", Algorithms: []sdk.AlgorithmPlugin{
		sdk.NewAlgorithm("crash", "Dies in its second step.", "", func(_ context.Context, _ config, host sdk.Host) (sdk.Algorithm, error) { return crash{host}, nil }),
	}})
}
