# The process of one arm's algorithm dies in a step.

include {
  files = ["../world.hcl"]
}

variable "record" {
  type        = string
  description = "file that counts how often the process has died"
}

variable "times" {
  type    = number
  default = 1
}

variable "exit" {
  type        = bool
  default     = false
  description = "it ends by itself and is not killed"
}

ablation "crash" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "sound" }

  arm "sound" {
    experiment = experiment.sound
  }

  arm "crashing" {
    experiment = experiment.sound
    stage "main" {
      algorithm "crash/crash" {
        record = var.record
        times  = var.times
        exit   = var.exit
      }
    }
  }
}

experiment "sound" {
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
    algorithm "search-r1" {
      group_size = 2
    }
    steps     = 4
    questions = 2
  }
  checkpoint {
    every = 1
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
