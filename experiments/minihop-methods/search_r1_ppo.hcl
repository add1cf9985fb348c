# Search-R1 with PPO in the embedded world. Five episodes per question, as the other methods have, in place of one; the
# critic's rate is ten times the policy's in the paper, here three times: both are large.

experiment "search_r1_ppo_small" {
  description = "Search-R1 (PPO, v0.3 reward) in the embedded world"
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
  critic {
    optimizer "adamw" {
      learning_rate = 1e-3
    }
  }

  reward {
    source "outcome" {
      reward "searchr1-format" {}
    }
    total = outcome.value
  }

  stage "main" {
    algorithm "search-r1" {
      estimator = "gae"
      updates   = 2
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
