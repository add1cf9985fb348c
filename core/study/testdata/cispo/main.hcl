# An algorithm of a third party beside one that comes with Forage.

include {
  files = ["../../../../experiments/minihop/world.hcl"]
}

variable "seeds" {
  type    = list(number)
  default = [0]
}

experiment "small" {
  policies = { main = policy.habit }
  tools    = { search = tool.search }
  train    = dataset.train
  agent    = agent.minihop

  sampling {
    temperature = 1
  }
  optimizer "adamw" {
    learning_rate = 3e-4
  }
  reward {
    source "outcome" {
      reward "searchr1-format" {}
    }
    total = outcome.value
  }
  stage "main" {
    algorithm "grpo" {
      group_size = 5
      updates    = 2
    }
    steps     = 3
    questions = 6
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}

ablation "cispo" {
  seeds    = var.seeds
  primary  = metric("test", "em")
  baseline = { arm = "grpo" }

  arm "grpo" {
    experiment = experiment.small
  }

  arm "cispo" {
    experiment = experiment.small
    stage "main" {
      algorithm "cispo/cispo" {
        group_size = 5
        updates    = 2
      }
    }
  }
}
