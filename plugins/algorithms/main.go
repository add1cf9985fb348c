// Command forage-algorithms serves the training methods that come with Forage: a folder per method.
package main

import (
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/plugins/algorithms/dapo"
	"github.com/forage-rl/forage/plugins/algorithms/davidgrpo"
	"github.com/forage-rl/forage/plugins/algorithms/drgrpo"
	"github.com/forage-rl/forage/plugins/algorithms/frugalrag"
	"github.com/forage-rl/forage/plugins/algorithms/grpo"
	"github.com/forage-rl/forage/plugins/algorithms/gspo"
	"github.com/forage-rl/forage/plugins/algorithms/offpolicymix"
	"github.com/forage-rl/forage/plugins/algorithms/preference"
	"github.com/forage-rl/forage/plugins/algorithms/reinforcepp"
	"github.com/forage-rl/forage/plugins/algorithms/rloo"
	"github.com/forage-rl/forage/plugins/algorithms/searchr1"
	"github.com/forage-rl/forage/plugins/algorithms/sft"
	"github.com/forage-rl/forage/plugins/algorithms/stepsearch"
	"github.com/forage-rl/forage/plugins/algorithms/treegrpo"
)

func main() { sdk.Serve(pack()) }

func pack() sdk.Pack {
	return sdk.Pack{
		Name:    "forage-algorithms",
		Version: "0.1.0",
		Algorithms: []sdk.AlgorithmPlugin{
			sft.Plugin(),
			preference.Plugin(),
			grpo.Plugin(),
			rloo.Plugin(),
			reinforcepp.Plugin(),
			drgrpo.Plugin(),
			dapo.Plugin(),
			gspo.Plugin(),
			offpolicymix.Plugin(),
			searchr1.Plugin(),
			stepsearch.Plugin(),
			davidgrpo.Plugin(),
			treegrpo.Plugin(),
			frugalrag.Plugin(),
		},
	}
}
