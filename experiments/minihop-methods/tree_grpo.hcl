# Tree-GRPO in the embedded world: two trees of three leaves per question, the cost of about four independent episodes.

experiment "tree_grpo_small" {
  description = "Tree-GRPO in the embedded world"
  policies    = { main = policy.habit }
  tools       = { search = tool.search }
  agent       = agent.minihop
  train       = dataset.train
  stages      = ["main"]

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
    algorithm "tree-grpo" {
      updates = 2
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
