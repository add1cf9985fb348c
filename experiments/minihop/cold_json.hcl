# How the base policy with GRASP's tools is made: as the others in cold.hcl, on episodes in the protocol of json.hcl.
# "json" seldom searches and hardly ever finishes a chain.

dataset "skill_json" {
  base = dataset.skill
  world {
    protocol = "json"
  }
}

dataset "habit_json" {
  base = dataset.habit
  world {
    protocol = "json"
  }
}

policy "fresh_json" {
  base = policy.fresh
  init {
    tokenizer     = "minihop/json"
    max_positions = 384
  }
}

experiment "base_json" {
  base     = experiment.base
  policies = { main = policy.fresh_json }
  tools    = { semantic_search = tool.semantic_search, keyword_search = tool.keyword_search, read_paragraph = tool.read_paragraph }
  agent    = agent.minihop_json
  stages   = ["skill", "habit"]
  remove   = ["stage.never"]

  stage "skill" {
    train   = dataset.skill_json
    experts = dataset.skill_json
  }

  stage "habit" {
    train   = dataset.habit_json
    experts = dataset.habit_json
  }

  checkpoint {
    keep = 2
  }
}

ablation "cold_json" {
  description = "The base policy of the embedded world that calls GRASP's tools"
  seeds       = [0]
  primary     = metric("test", "em")
  baseline    = { arm = "json" }

  arm "json" {
    experiment = experiment.base_json
  }
}
