# What the usual baselines start from in the embedded world, at one budget: 16 questions of 5 episodes, 40 steps, 2
# optimizer steps each. They differ in their algorithm alone, so they are arms over one experiment: see main.hcl.

experiment "grpo_small" {
  description = "GRPO in the embedded world"
  policies    = { main = policy.habit }
  tools       = { search = tool.search }
  agent       = agent.minihop
  train       = dataset.train

  sampling {
    temperature = 1
  }
  optimizer "adamw" {
    learning_rate = 3e-4
  }
  reward {
    source "outcome" {
      reward "searchr1-format" {}
    }
    total = outcome.value
  }

  stage "main" {
    algorithm "grpo" {
      group_size = 5
      updates    = 2
    }
    steps     = var.steps
    questions = 16
  }

  evaluate "test" {
    dataset = dataset.test
    every   = 20
    sampling {
      greedy = true
    }
  }
}

# What the base answers without any training. "direct" may not search, "rag" gets what a search with the question
# finds, "agentic" searches as the trained agents do.
experiment "prompting_small" {
  description = "Prompting without training in the embedded world"
  policies    = { main = policy.habit }
  tools       = { search = tool.search }
  agent       = agent.minihop

  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
