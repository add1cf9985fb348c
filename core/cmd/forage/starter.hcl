# Does training with reinforcement learning make a small agent search more? A study of its own on the embedded world:
# a generated corpus of 156 linked documents, questions of two and three hops over it, and a policy of 0.1 million
# weights that can read and search but seldom does. It runs on a laptop in minutes.
#
#   forage validate DIR    checks this file
#   forage plan DIR        shows every run
#   forage run DIR         carries them out and reports

corpus "world" {
  builtin = "minihop"
  seed    = seed + 1 # each seed of the study plays in a world of its own
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
}

policy "habit" {
  builtin = "minihop/habit"
}

agent "searcher" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation = "%{for hit in hits}${hit.text} %{endfor}"
  limit       = "limit"

  max_searches        = 4
  on_budget           = "limit_text"
  max_response_tokens = 156
  turn_tokens {
    first = 14
  }
}

experiment "grpo" {
  policies = { main = policy.habit }
  tools    = { search = tool.search }
  agent    = agent.searcher
  train    = dataset.train

  sampling {
    temperature = 1
  }

  reward {
    source "outcome" {
      reward "searchr1-format" {
        structure_score = 0.2
        final_score     = 0.1
      }
    }
    total = outcome.value
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 3e-4
    }
    algorithm "search-r1" {}
    steps     = 40
    questions = 16
  }

  guard "collapse" {
    when   = metrics["episode/searches"] < 0.1 && step > 20
    action = "warn"
  }

  evaluate "test" {
    dataset = dataset.test
    every   = 20
    sampling {
      greedy = true
    }
  }
}

ablation "group_size" {
  description = "GRPO with small and large groups"
  seeds       = [0, 1, 2]
  primary     = metric("test", "em")
  baseline    = { arm = "grpo", group = 5 }

  arm "grpo" {
    experiment = experiment.grpo
  }

  axis "group" {
    path   = stage.main.algorithm.group_size
    values = [5, 8]
  }
}
