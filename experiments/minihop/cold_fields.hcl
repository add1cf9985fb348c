# How the base policy "fields" is made: the base "habit", which can read, learns the protocol of FrugalRAG, where every
# turn answers a prompt of its own that lays out what happened so far. Half of the examples have no tool to finish and go on searching;
# the others, in the second stage, finish before the evidence is complete. Half say the question again at the prompt's
# end, so that there are two prompts to choose from.

dataset "fields_skill" {
  builtin = "minihop"
  split   = "stream"
  seed    = seed
  order   = "given"
  world {
    phase    = "skill"
    protocol = "fields"
  }
}

dataset "fields_habit" {
  builtin = "minihop"
  split   = "stream"
  seed    = seed + 100000
  order   = "given"
  world {
    phase      = "habit"
    full_share = 0.1 # of 2-hop questions; it stops in time in some questions, and too early in most
    protocol   = "fields"
  }
}

policy "fresh_fields" {
  init {
    seed              = seed
    tokenizer         = "minihop/fields"
    hidden_size       = 64
    layers            = 3
    heads             = 4
    intermediate_size = 128
    max_positions     = 320
    tied              = true
    final_norm        = 0.25
    from              = "minihop/habit"
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

experiment "base_fields" {
  policies = { main = policy.fresh_fields }
  tools    = { search = tool.unseen }
  agent    = agent.minihop_fields
  stages   = ["skill", "habit"]

  optimizer "adamw" {
    betas        = [0.9, 0.95]
    weight_decay = 0.01
    clip_norm    = 1
  }
  schedule "cosine" {
    warmup_steps = 20
    final        = 0.1
  }

  stage "skill" {
    train   = dataset.fields_skill
    experts = dataset.fields_skill
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "sft" {}
    steps     = 240
    questions = 16
  }

  stage "habit" {
    train   = dataset.fields_habit
    experts = dataset.fields_habit
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    algorithm "sft" {}
    steps     = 40
    questions = 32
  }

  checkpoint {
    every = 200
    keep  = 1
  }

  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
  evaluate "search_on" {
    dataset = dataset.test
    agent   = agent.minihop_fields_search
    sampling {
      greedy = true
    }
  }
}

ablation "cold_fields" {
  description = "The base policy of the embedded world that writes fields"
  seeds       = [0]
  primary     = metric("test", "evidence_all")
  baseline    = { arm = "fields" }

  arm "fields" {
    experiment = experiment.base_fields
  }
}
