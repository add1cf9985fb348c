# Search-R1 with PPO in the embedded world. Five episodes per question, as the other methods have, in place of one; the
# critic's rate is ten times the policy's in the paper, here three times: both are large.

experiment "search_r1_ppo_small" {
  description = "Search-R1 (PPO, v0.3 reward) in the embedded world"
  base        = experiment.small

  critic {
    optimizer "adamw" {
      learning_rate = 1e-3
    }
  }

  stage "main" {
    algorithm "search-r1" {
      estimator = "gae"
      updates   = 2
    }
  }
}
