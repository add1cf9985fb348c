# Two methods, three seeds, a few steps: what tests of whole studies run.

include {
  files = ["../world.hcl", "../../../../experiments/methods/search_r1.hcl", "../../../../experiments/methods/david_grpo.hcl"]
}

variable "steps" {
  type        = number
  default     = 3
  description = "training steps"
}

ablation "small" {
  seeds    = [0, 1, 2]
  primary  = metric("test", "em")
  baseline = { arm = "search_r1" }

  set {
    policies = { main = policy.habit }
    tools    = { search = tool.search }
    train    = dataset.train
    agent    = agent.minihop
    stages   = ["main"]
    sampling {
      temperature = 1
    }
    evaluate "test" {
      dataset = dataset.test
      every   = 2
      sampling {
        greedy = true
      }
    }
    checkpoint {
      every = 1
    }
    stage "main" {
      optimizer "adamw" {
        learning_rate = 3e-4
      }
      schedule "constant" {}
      steps     = var.steps
      questions = 3
    }
  }

  arm "search_r1" {
    experiment = experiment.search_r1_v03
    stage "main" {
      algorithm "search-r1" {
        group_size = 3
        updates    = 2
      }
    }
  }

  arm "david_grpo" {
    experiment = experiment.david_grpo
    reward {
      source "gates" {
        reward "david-gates" {
          scope        = "response"
          search_open  = "<search>"
          search_close = "</search>"
          result_open  = "<information>"
          result_close = "</information>"
          answer_open  = "<answer>"
          answer_close = "</answer>"
        }
      }
      source "outcome" {
        reward "david-outcome" {
          answer_from = "episode"
        }
      }
    }
    stage "main" {
      algorithm "david-grpo" {
        group_size = 3
        updates    = 2
      }
    }
  }
}

ablation "critic" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "ppo" }

  arm "ppo" {
    experiment = experiment.ppo
  }
}

experiment "ppo" {
  policies = { main = policy.habit }
  tools    = { search = tool.search }
  train    = dataset.train
  agent    = agent.minihop
  stages   = ["first", "second"]

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
  }
  checkpoint {
    every = 1
  }

  stage "first" {
    critic {
      optimizer "adamw" {
        learning_rate = 1e-3
      }
    }
    algorithm "search-r1" {
      estimator         = "gae"
      group_size        = 3
      updates           = 2
      mask_observations = false
      gae {
        critic_warmup = 1
      }
    }
    steps     = 3
    questions = 3
  }

  stage "second" {
    critic {
      optimizer "adamw" {
        learning_rate = 5e-4
      }
    }
    algorithm "search-r1" {
      estimator  = "gae"
      group_size = 3
      updates    = 2
    }
    optimizer_state = "keep"
    steps           = 2
    questions       = 3
  }

  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
