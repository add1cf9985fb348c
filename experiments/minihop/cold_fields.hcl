# How the base policy "fields" is made: the base "habit", which can read, learns the protocol of FrugalRAG, where every
# turn answers a prompt of its own that lays out what happened so far. Half of the examples have no tool to finish and go
# on searching; the others, in the second stage, finish before the evidence is complete. Half say the question again at
# the prompt's end, so that there are two prompts to choose from.

dataset "fields_skill" {
  base = dataset.skill
  world {
    protocol = "fields"
  }
}

dataset "fields_habit" {
  base = dataset.habit
  world {
    full_share = 0.1 # of 2-hop questions; it stops in time in some questions, and too early in most
    protocol   = "fields"
  }
}

policy "fresh_fields" {
  base = policy.fresh
  init {
    tokenizer     = "minihop/fields"
    max_positions = 320
    from          = "minihop/habit"
  }
}

experiment "base_fields" {
  base     = experiment.base
  policies = { main = policy.fresh_fields }
  tools    = { search = tool.unseen }
  agent    = agent.minihop_fields
  stages   = ["skill", "habit"]
  remove   = ["stage.never", "evaluate.samples"]

  schedule "cosine" {
    warmup_steps = 20
  }

  stage "skill" {
    train   = dataset.fields_skill
    experts = dataset.fields_skill
    optimizer "adamw" {
      learning_rate = 1e-3
    }
    steps     = 240
    questions = 16
  }

  stage "habit" {
    train     = dataset.fields_habit
    experts   = dataset.fields_habit
    steps     = 40
    questions = 32
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
