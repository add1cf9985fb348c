# One arm's algorithm dies in its second step.

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
      algorithm "crash/crash" {}
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
    steps     = 2
    questions = 2
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
