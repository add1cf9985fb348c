package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
)

// asked is an agent that a stage may ask a policy by.
type asked struct {
	agent *rollout.Agent
	// key is equal for agents that ask alike, whatever their names.
	key string
}

// agentNamed finds an agent by the name under "agents" or the handle that a plugin's configuration refers to; "" is the
// stage's own.
func (s *stage) agentNamed(name string) (*experiment.Agent, error) {
	config := s.run.config
	if name == "" {
		return s.config.Agent, nil
	}
	if a, ok := config.Agents[name]; ok {
		return a, nil
	}
	if a, ok := config.AgentBlocks[name]; ok {
		return a, nil
	}
	return nil, fmt.Errorf("agent %q; the run has %s in agents, and whatever agents its plugins refer to: %w", name, strings.Join(sorted(config.Agents), ", "), sdk.ErrUnknownHandle)
}

// ask makes the agent of a name, with other tools where tools is not empty.
func (s *stage) ask(name string, tools []string) (asked, error) {
	id := name + "\x00" + strings.Join(tools, "\x00")
	if have, ok := s.agents[id]; ok {
		return have, nil
	}
	config, err := s.agentNamed(name)
	if err != nil {
		return asked{}, err
	}
	if len(tools) > 0 {
		limited := *config
		limited.Tools = tools
		if !slices.Contains(tools, limited.Tool) {
			limited.Tool = ""
		}
		for _, tool := range tools {
			if _, ok := s.run.tools[tool]; !ok {
				return asked{}, fmt.Errorf("tool %q; the run has %s: %w", tool, strings.Join(sorted(s.run.tools), ", "), sdk.ErrInvalidRequest)
			}
		}
		config = &limited
	}
	made, err := agent(config, s.run.tools.descriptions())
	if err != nil {
		return asked{}, err
	}
	key, err := json.Marshal(config)
	if err != nil {
		return asked{}, err
	}
	s.agents[id] = asked{made, string(key)}
	return s.agents[id], nil
}

// own says where episodes come from that were laid out for the stage's policy but not sampled.
func (s *stage) own() made { return made{model: s.model, policy: s.role(), key: s.self.key} }

// made says what an episode of a step came from.
type made struct {
	model  *model // whose tokens it holds
	policy string // role or handle
	agent  string // name as asked for, "" for the stage's own
	// key is the agent's; "" where several had a part in it.
	key string
}
