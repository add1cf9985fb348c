// Command forage-rewards serves the rewards that come with Forage: a folder per reward.
package main

import (
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/plugins/rewards/autocoa"
	"github.com/forage-rl/forage/plugins/rewards/davidgates"
	"github.com/forage-rl/forage/plugins/rewards/davidoutcome"
	"github.com/forage-rl/forage/plugins/rewards/em"
	"github.com/forage-rl/forage/plugins/rewards/evidencecoverage"
	"github.com/forage-rl/forage/plugins/rewards/f1"
	"github.com/forage-rl/forage/plugins/rewards/frugalrag"
	"github.com/forage-rl/forage/plugins/rewards/grasp"
	"github.com/forage-rl/forage/plugins/rewards/searchr1format"
	"github.com/forage-rl/forage/plugins/rewards/stepsearch"
)

func main() { sdk.Serve(pack()) }

func pack() sdk.Pack {
	return sdk.Pack{
		Name:    "forage-rewards",
		Version: "0.1.0",
		Rewards: []sdk.RewardPlugin{
			em.Plugin(), f1.Plugin(), searchr1format.Plugin(),
			autocoa.Plugin(),
			davidgates.Plugin(), evidencecoverage.Plugin(), davidoutcome.Plugin(),
			stepsearch.AnswerPlugin(), stepsearch.KeysPlugin(), stepsearch.StepsPlugin(),
			frugalrag.Plugin(),
			grasp.Plugin(),
		},
	}
}
