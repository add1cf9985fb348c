# The base "never" does not search at all: what reinforcement learning finds alone, and what expert seeding changes.

ablation "never" {
  description = "David-GRPO with and without expert seeding, and Search-R1, from a base that never searches"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "david_grpo" }

  set {
    policies = { main = policy.never }
  }

  arm "david_grpo" {
    experiment = experiment.david_small
  }

  arm "without_seeding" {
    experiment = experiment.david_small
    stages     = ["main"]
  }

  arm "search_r1" {
    experiment = experiment.search_r1_small
  }
}
