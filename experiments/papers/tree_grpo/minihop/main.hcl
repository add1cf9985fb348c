# The ablations of ../main.hcl in the embedded world. The bases take the place of the language models.

study {
  name = "tree_grpo_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/tree_grpo.hcl", "../../../minihop-methods/baselines.hcl", "../budgets.hcl"]
}

ablation "main" {
  description = "Chains and trees at about equal cost"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "grpo", base = "minihop/habit" }
  sets        = [set.elsewhere]

  arm "direct" {
    experiment = experiment.prompting_small
    agent { tools = [] }
  }

  arm "grpo" {
    experiment = experiment.tree_grpo_small
    sets       = [set.chains]
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo_small
  }

  axis "base" {
    path   = policies.main.builtin
    values = ["minihop/habit", "minihop/never"]
  }
}

ablation "short" {
  description = "Chains and trees, questions of two hops only"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "grpo" }

  set {
    train = dataset.short
    evaluate "test" { dataset = dataset.short_test }
  }

  arm "grpo" {
    experiment = experiment.tree_grpo_small
    sets       = [set.chains]
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo_small
  }
}

dataset "short" {
  base = dataset.train
  hops = [2]
}

dataset "short_test" {
  base = dataset.test
  hops = [2]
}

ablation "budget" {
  description = "Trees and chains at budgets of 2, 4, 8 and 16 chains per question"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "chains_4" }

  arm "chains_2" {
    experiment = experiment.tree_grpo_small
    sets       = [set.chains, set.chains_2]
  }

  arm "trees_2" {
    experiment = experiment.tree_grpo_small
    sets       = [set.trees_2]
  }

  arm "chains_4" {
    experiment = experiment.tree_grpo_small
    sets       = [set.chains]
  }

  arm "trees_4" {
    experiment = experiment.tree_grpo_small
    sets       = [set.trees_4]
  }

  arm "chains_8" {
    experiment = experiment.tree_grpo_small
    sets       = [set.chains, set.chains_8]
  }

  arm "trees_8" {
    experiment = experiment.tree_grpo_small
    sets       = [set.trees_8]
  }

  arm "chains_16" {
    experiment = experiment.tree_grpo_small
    sets       = [set.chains, set.chains_16]
  }

  arm "trees_16" {
    experiment = experiment.tree_grpo_small
    sets       = [set.trees_16]
  }
}

ablation "advantage" {
  description = "Advantage within a tree, between all leaves of the question, and both"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { advantage = "tree" }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo_small
  }

  axis "advantage" {
    path   = stage.main.algorithm.advantage
    values = ["intra", "inter", "tree"]
  }
}
