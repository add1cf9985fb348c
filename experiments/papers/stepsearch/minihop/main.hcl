# The ablations of ../main.hcl in the embedded world; those on the parts of the reward are in parts.hcl.

study {
  name = "stepsearch_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/search_r1_ppo.hcl", "../../../minihop-methods/stepsearch.hcl", "../without.hcl"]
}

ablation "main" {
  description = "Search-R1 and StepSearch, both bases"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1", base = "minihop/habit" }
  sets        = [set.elsewhere]

  arm "search_r1" {
    experiment = experiment.search_r1_ppo_small
  }

  arm "stepsearch" {
    experiment = experiment.stepsearch_small
  }

  axis "base" {
    path   = policies.main.builtin
    values = ["minihop/habit", "minihop/never"]
  }
}

ablation "same_data" {
  description = "PPO, GRPO and StePPO on the same questions"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "ppo" }

  arm "ppo" {
    experiment = experiment.search_r1_ppo_small
  }

  arm "grpo" {
    experiment = experiment.search_r1_small
  }

  arm "stepsearch" {
    experiment = experiment.stepsearch_small
  }
}
