# How the base policy with GRASP's tools is made: as the others in cold.hcl, on episodes in the protocol of json.hcl.
# "json" seldom searches and hardly ever finishes a chain.

dataset "skill_json" {
  builtin = "minihop"
  split   = "stream"
  seed    = seed
  order   = "given"
  world {
    phase    = "skill"
    protocol = "json"
  }
}

dataset "habit_json" {
  builtin = "minihop"
  split   = "stream"
  seed    = seed + 100000
  order   = "given"
  world {
    phase      = "habit"
    full_share = 0.002
    protocol   = "json"
  }
}

policy "fresh_json" {
  init {
    seed              = seed
    tokenizer         = "minihop/json"
    hidden_size       = 64
    layers            = 3
    heads             = 4
    intermediate_size = 128
    max_positions     = 384
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

experiment "base_json" {
  policies = { main = policy.fresh_json }
  tools    = { semantic_search = tool.semantic_search, keyword_search = tool.keyword_search, read_paragraph = tool.read_paragraph }
  agent    = agent.minihop_json

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
    train   = dataset.skill_json
    experts = dataset.skill_json
    optimizer "adamw" {
      learning_rate = 3e-3
    }
    algorithm "sft" {}
    steps     = 1000
    questions = 24
  }

  stage "habit" {
    train   = dataset.habit_json
    experts = dataset.habit_json
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "sft" {}
    steps     = 200
    questions = 48
  }

  checkpoint {
    every = 200
    keep  = 2
  }

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

ablation "cold_json" {
  description = "The base policy of the embedded world that calls GRASP's tools"
  seeds       = [0]
  primary     = metric("test", "em")
  baseline    = { arm = "json" }

  arm "json" {
    experiment = experiment.base_json
    stages     = ["skill", "habit"]
  }
}
