# The methods of ../methods, scaled to the embedded world: its tags, its token limits, fewer and larger steps.

variable "steps" {
  type        = number
  default     = 40
  description = "training steps of the main stage"
}

variable "seeds" {
  type        = list(number)
  default     = [0, 1, 2]
  description = "seeds of each study"
}

# What they all share but the algorithm: one budget of 16 questions per step, and the reward of Search-R1.
experiment "small" {
  policies = { main = policy.habit }
  tools    = { search = tool.search }
  agent    = agent.minihop
  train    = dataset.train

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
    steps     = var.steps
    questions = 16
  }

  evaluate "test" {
    dataset = dataset.test
    every   = 20
    sampling {
      greedy = true
    }
  }
}

experiment "david_small" {
  description = "David-GRPO in the embedded world"
  base        = experiment.small
  stages      = ["seed", "main"]

  reward {
    source "gates" {
      reward "david-gates" {
        scope        = "response" # each turn opens a thought of its own here
        search_open  = "<search>"
        search_close = "</search>"
        result_open  = "<information>"
        result_close = "</information>"
        answer_open  = "<answer>"
        answer_close = "</answer>"
      }
    }
    source "coverage" {
      reward "evidence-coverage" {}
    }
    source "outcome" {
      reward "david-outcome" {
        answer_from = "episode"
      }
    }
    total = gates.value * (0.5 * coverage.value + 0.5 * outcome.value)
  }

  stage "seed" {
    train   = dataset.experts
    experts = dataset.experts
    algorithm "david-grpo" {
      phase = "seed"
    }
    steps     = 25
    questions = 4
  }

  stage "main" {
    algorithm "david-grpo" {
      phase   = "main"
      updates = 2
    }
  }
}

experiment "search_r1_small" {
  description = "Search-R1 (GRPO, v0.3 reward) in the embedded world"
  base        = experiment.small

  stage "main" {
    algorithm "search-r1" {
      updates = 2
    }
  }
}
