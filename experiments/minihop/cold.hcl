# How the base policies of the embedded world are made: two supervised stages on a stream of worlds that never come
# back, so that reading is learnt and facts are not. "habit" seldom searches and hardly ever finishes a chain; "never"
# does not search at all.

dataset "skill" {
  builtin = "minihop"
  split   = "stream"
  seed    = seed
  order   = "given"
  world {
    phase = "skill"
  }
}

dataset "habit" {
  base = dataset.skill
  seed = seed + 100000
  world {
    phase      = "habit"
    full_share = 0.002 # of 2-hop questions; near 0.01 plain GRPO escapes the collapse in some seeds
  }
}

dataset "never" {
  base = dataset.skill
  seed = seed + 200000
  world {
    phase = "never"
  }
}

policy "fresh" {
  init {
    seed              = seed
    tokenizer         = "minihop"
    hidden_size       = 64
    layers            = 3
    heads             = 4
    intermediate_size = 128
    max_positions     = 256
    tied              = true
    final_norm        = 0.25
    std_dev {
      embedding = 0.2
      query     = 0.125
      key       = 0.125
      value     = 0.125
      gate      = 0.125
      up        = 0.125
      output    = 0.0510
      down      = 0.0361
    }
  }
}

experiment "base" {
  policies = { main = policy.fresh }
  tools    = { search = tool.search }
  agent    = agent.minihop

  optimizer "adamw" {
    betas        = [0.9, 0.95]
    weight_decay = 0.01
    clip_norm    = 1
  }
  schedule "cosine" {
    warmup_steps = 100
    final        = 0.1
  }

  stage "skill" {
    train   = dataset.skill
    experts = dataset.skill
    optimizer "adamw" {
      learning_rate = 3e-3
    }
    algorithm "sft" {}
    steps     = 1000
    questions = 24
  }

  stage "habit" {
    train   = dataset.habit
    experts = dataset.habit
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "sft" {}
    steps     = 200
    questions = 48
  }

  stage "never" {
    train   = dataset.never
    experts = dataset.never
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "sft" {}
    steps     = 80
    questions = 48
  }

  checkpoint {
    every = 200
    keep  = 1
  }

  # The rates by which a base is accepted: 256 questions, 8 samples each.
  evaluate "samples" {
    dataset = dataset.train
    samples = 8
    sampling {
      temperature = 1
    }
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}

ablation "cold" {
  description = "The base policies of the embedded world"
  seeds       = [0]
  primary     = metric("test", "em")
  baseline    = { arm = "habit" }

  arm "habit" {
    experiment = experiment.base
    stages     = ["skill", "habit"]
  }

  arm "never" {
    experiment = experiment.base
    stages     = ["skill", "never"]
  }
}
