# Does an agent keep searching when it is trained with reinforcement learning on a small budget? Search-R1's GRPO
# against David-GRPO on the embedded world, from a base that seldom searches. "make demo" runs this.

ablation "demo" {
  description = "Search-R1 (GRPO, v0.3 reward) against David-GRPO, from a base that seldom searches"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1" }
  sets        = [set.elsewhere] # see world.hcl

  set { # shared by all arms, merged over each arm's experiment
    policies = { main = policy.habit }
  }

  arm "search_r1" {
    experiment = experiment.search_r1_small
  }

  arm "david_grpo" {
    experiment = experiment.david_small
  }
}
