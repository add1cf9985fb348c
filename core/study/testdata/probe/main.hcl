# What an algorithm can ask for, and what it can get wrong.

include {
  files = ["../world.hcl"]
}

variable "stop" {
  type        = bool
  default     = false
  description = "stop by the guard"
}

ablation "probe" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "nothing" }

  arm "nothing" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "nothing"
      }
    }
  }
  arm "objective" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "objective"
      }
    }
  }
  arm "episode" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "episode"
      }
    }
  }
  arm "field" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "field"
      }
    }
  }
  arm "nan" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "nan"
      }
    }
  }
  arm "length" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "length"
      }
    }
  }
  arm "used" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "used"
      }
    }
  }
  arm "mask" {
    experiment = experiment.probe
    stage "main" {
      algorithm "probe/probe" {
        wrong = "mask"
      }
    }
  }
}

experiment "probe" {
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
    algorithm "probe/probe" {
      index  = index.dense
      corpus = corpus.world
    }
    steps     = 3
    questions = 2
  }
  checkpoint {
    every = 1
    keep  = 1
  }
  guard "late" {
    when   = metrics["probe/state"] > 1 && var.stop
    action = "stop"
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
