# What an algorithm can ask for, and what it can get wrong.

corpus "world" {
  builtin = "minihop"
  seed    = seed + 1
}

encoder "hashed" {
  kind = "hashed"
}

index "dense" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "document"
  hnsw {}
}

tool "search" {
  retriever "dense" {
    index = index.dense
    k     = 2
  }
}

dataset "train" {
  builtin = "minihop"
  split   = "train"
  seed    = seed + 1
}

dataset "test" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  limit   = 12
}

policy "habit" {
  builtin = "minihop/habit"
}

agent "minihop" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation         = "%{for hit in hits}${hit.text} %{endfor}"
  limit               = "limit"
  max_searches        = 4
  on_budget           = "limit_text"
  max_response_tokens = 156
  turn_tokens {
    first = 14
  }
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
