# What algorithms and rewards can get wrong, a run each.

include {
  files = ["../../../../experiments/minihop/world.hcl"]
}

experiment "algorithm" {
  policies = { main = policy.habit }
  tools    = { search = tool.search }
  train    = dataset.train
  agent    = agent.minihop

  optimizer "adamw" {
    learning_rate = 3e-4
  }
  reward {
    source "outcome" {
      reward "em" {}
    }
  }
  stage "main" {
    algorithm "misbehave/misbehave" {
      wrong = "nothing"
    }
    steps     = 1
    questions = 1
  }
}

experiment "reward" {
  policies = { main = policy.habit }
  tools    = { search = tool.search }
  train    = dataset.train
  agent    = agent.minihop

  optimizer "adamw" {
    learning_rate = 3e-4
  }
  reward {
    source "outcome" {
      reward "misbehave/misbehave" {
        wrong = "nothing"
      }
    }
  }
  stage "main" {
    algorithm "grpo" {
      group_size = 3
    }
    steps     = 1
    questions = 1
  }
}

ablation "algorithm" {
  seeds = [0]

  arm "algorithm" {
    experiment = experiment.algorithm
  }

  axis "wrong" {
    path = stage.main.algorithm.wrong
    values = [
      "nothing", "sequence", "samples", "field_name", "infinite", "overflow", "unit", "count", "order", "epochs", "temperature",
      "not_a_temperature", "loss", "pairs", "used_nan", "used_turns", "artefact", "metric",
    ]
  }
}

ablation "reward" {
  seeds = [0]

  arm "reward" {
    experiment = experiment.reward
  }

  axis "wrong" {
    path   = reward.outcome.wrong
    values = ["nothing", "few", "many", "nan", "infinite", "component", "turns", "turn_nan"]
  }
}
