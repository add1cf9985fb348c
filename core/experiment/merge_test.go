package experiment_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
)

// mergeStudy has an experiment with everything set and one arm whose body is given.
func mergeStudy(t *testing.T, arm string) *experiment.Run {
	t.Helper()
	return resolve(t, loadMerge(t, arm), "a", "x", 1)
}

func loadMerge(t *testing.T, arm string) *experiment.Study {
	t.Helper()
	base, err := os.ReadFile("../plan/testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	source := string(base) + `
experiment "full" {
  policies = { main = policy.small }
  tools    = { search = tool.search }
  agent    = agent.plain
  train    = dataset.train
  sampling {
    temperature = 0.6
    top_p       = 0.9
  }
  optimizer "adamw" {
    learning_rate = 1e-6
    betas         = [0.9, 0.95]
  }
  schedule "cosine" {
    warmup_steps = 10
    final        = 0.1
  }
  reward {
    source "a" {
      reward "search-r1" {
        version = "v0.3"
        format  = 0.5
      }
    }
    source "b" {
      reward "exact-match" {}
    }
    total = a.value + b.value
  }
  stage "main" {
    algorithm "grpo" {
      group_size = 8
      kl         = 0.5
    }
    steps     = 100
    questions = 16
  }
  guard "collapse" {
    when = step > 1
  }
  guard "other" {
    when = step > 2
  }
  evaluate "test" {
    dataset = dataset.test
    samples = 4
  }
}

ablation "a" {
  seeds = [1]
  arm "x" {
    experiment = experiment.full
` + arm + "\n  }\n}\n"
	s, diags := experiment.Load(t.Context(), tree(t, map[string]string{"main.hcl": source}), experiment.Inputs{}, &testschemas.Source{})
	failOn(t, s, diags)
	return s
}

// TestChangedParts: an arm that takes another plugin says so, whatever it sets of it.
func TestChangedParts(t *testing.T) {
	for _, test := range []struct{ arm, want string }{
		{``, ""},
		{`stage "main" {
      algorithm "grpo" {
        kl = 0.1
      }
    }`, "stage.main.algorithm.kl"},
		{`stage "main" {
      algorithm "david-grpo" {
        group_size = 3
        updates    = 2
      }
      steps = 3
    }`, `stage.main.steps stage.main.algorithm "david-grpo"`},
		{`reward {
      source "b" {
        reward "search-r1" {
          format = 0.1
        }
      }
      source "c" {
        reward "search-r1" {
          format = 0.1
        }
      }
    }`, `reward.source.b.reward "search-r1" reward.source.c.reward.format`},
	} {
		a, diags := loadMerge(t, test.arm).Ablation("a")
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if got := strings.Join(a.Arms[0].Parts, " "); got != test.want {
			t.Errorf("%s\nchanges %s, want %s", test.arm, got, test.want)
		}
	}
}

func TestMerging(t *testing.T) {
	for name, c := range map[string]struct {
		arm   string
		check func(r *experiment.Run) bool
	}{
		"nothing": {"", func(r *experiment.Run) bool {
			s := r.Stages[0]
			return s.Algorithm.Values["group_size"] == 8.0 && s.Sampling.Temperature == 0.6 && s.Schedule.Final == 0.1 && len(r.Guards) == 2 && r.Evaluations[0].Samples == 4
		}},
		"one attribute of a plugin": {`stage "main" {
      algorithm "grpo" {
        kl = 0.1
      }
    }`, func(r *experiment.Run) bool {
			v := r.Stages[0].Algorithm.Values
			return v["kl"] == 0.1 && v["group_size"] == 8.0 && r.Stages[0].Steps == 100
		}},
		"another plugin replaces the block": {`stage "main" {
      algorithm "david-grpo" {}
    }`, func(r *experiment.Run) bool {
			p := r.Stages[0].Algorithm
			return p.Label == "david-grpo" && p.Values["group_size"] == 5.0 && p.Values["kl"] == nil
		}},
		"null resets to the default": {`sampling {
      temperature = null
    }
    stage "main" {
      algorithm "grpo" {
        group_size = null
      }
    }
    reward {
      source "a" {
        reward "search-r1" {
          format = null
        }
      }
    }`, func(r *experiment.Run) bool {
			s := r.Stages[0]
			return s.Algorithm.Values["group_size"] == 5.0 && s.Sampling.Temperature == 1 && s.Sampling.TopP == 0.9 &&
				s.Reward.Sources[0].Plugin.Values["format"] == 0.2 && s.Reward.Sources[0].Plugin.Values["version"] == "v0.3"
		}},
		"null takes expressions and texts away": {`remove = ["reward.source.b"]
    reward {
      total      = null
      turn_total = null
    }
    agent {
      invalid = null
    }`, func(r *experiment.Run) bool {
			s := r.Stages[0]
			return s.Reward.Total.Text() == "a.value" && s.Reward.TurnTotal == nil && s.Agent.Invalid == nil
		}},
		"an object in place of a block": {`sampling = { top_p = 0.5 }`, func(r *experiment.Run) bool {
			return r.Stages[0].Sampling.TopP == 0.5 && r.Stages[0].Sampling.Temperature == 0.6
		}},
		"removal": {`remove = ["guard.collapse", "schedule", "reward.source.b", "reward.total"]`, func(r *experiment.Run) bool {
			s := r.Stages[0]
			return len(r.Guards) == 1 && r.Guards[0].Name == "other" && s.Schedule.Kind == "constant" && s.Schedule.Final == 1 && len(s.Reward.Sources) == 1 && s.Reward.Total.Text() == "a.value"
		}},
		"removal within a block": {`stage "main" {
      remove = ["algorithm.kl"]
      algorithm "grpo" {
        group_size = 3
      }
    }`, func(r *experiment.Run) bool {
			v := r.Stages[0].Algorithm.Values
			return v["kl"] == 0.001 && v["group_size"] == 3.0
		}},
		"removed and written anew": {`remove = ["guard.other"]
    guard "other" {
      when   = step > 9
      action = "stop"
    }`, func(r *experiment.Run) bool {
			return len(r.Guards) == 2 && r.Guards[1].When.Text() == "step > 9" && r.Guards[1].Action == "stop"
		}},
		"part of the agent": {`agent {
      max_turns = 9
      protocol "tags" {
        call = { open = "<q>", close = "</q>" }
      }
    }`, func(r *experiment.Run) bool {
			a := r.Stages[0].Agent
			return a.MaxTurns == 9 && a.Protocol.Tags.Call.Open == "<q>" && a.Protocol.Tags.Answer.Open == "<answer>" && a.User != nil && r.Evaluations[0].Agent.MaxTurns == 9
		}},
		"another protocol": {`agent {
      protocol "json" {}
    }`, func(r *experiment.Run) bool {
			return r.Agent.Protocol.Tags == nil && r.Agent.Protocol.JSON != nil
		}},
		"a stage's own part over the arm's": {`agent {
      max_turns = 9
    }
    stage "main" {
      agent {
        max_turns = 2
      }
      sampling {
        temperature = 0.1
      }
      optimizer "adamw" {
        learning_rate = 1
      }
      schedule "linear" {}
    }`, func(r *experiment.Run) bool {
			s := r.Stages[0]
			return s.Agent.MaxTurns == 2 && r.Evaluations[0].Agent.MaxTurns == 9 && s.Sampling.Temperature == 0.1 && s.Sampling.TopP == 0.9 &&
				r.Evaluations[0].Sampling.Temperature == 0.6 && s.Optimizer.Betas[1] == 0.95 && s.Schedule.Kind == "linear" && s.Schedule.Warmup == 0
		}},
		"a stage's own reward expression": {`stage "main" {
      reward {
        total = a.value * b.value
      }
    }`, func(r *experiment.Run) bool {
			return r.Stages[0].Reward.Total.Text() == "a.value * b.value" && len(r.Stages[0].Reward.Sources) == 2
		}},
		"a further evaluation": {`evaluate "dev" {
      dataset = dataset.dev
    }
    evaluate "test" {
      samples = 1
    }`, func(r *experiment.Run) bool {
			return len(r.Evaluations) == 2 && r.Evaluations[1].Name == "test" && r.Evaluations[1].Samples == 1 && r.Evaluations[1].Dataset.Handle == "dataset.test"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := mergeStudy(t, "    "+c.arm)
			if !c.check(run) {
				t.Errorf("arm\n%s\nresolved to\n%s", strings.TrimSpace(c.arm), run.HCL())
			}
		})
	}
}
