# The ablations of ../main.hcl in the embedded world. The bases take the place of the language models.

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/tree_grpo.hcl", "../../../minihop-methods/baselines.hcl"]
}

ablation "main" {
  description = "Chains and trees at about equal cost"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "grpo", base = "minihop/habit" }
  sets        = [set.elsewhere]

  arm "direct" {
    experiment = experiment.prompting_small
    agent {
      tools = []
    }
  }

  arm "grpo" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 4
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
    }
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
    evaluate "test" {
      dataset = dataset.short_test
    }
  }

  arm "grpo" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 4
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
    }
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo_small
  }
}

dataset "short" {
  builtin = "minihop"
  split   = "train"
  seed    = seed + 1
  hops    = [2]
}

dataset "short_test" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  hops    = [2]
}

ablation "budget" {
  description = "Trees and chains at budgets of 2, 4, 8 and 16 chains per question"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "chains_4" }

  arm "chains_2" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 2
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
    }
  }

  arm "trees_2" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 1
        expansions = 2
        rounds     = 1
        leaves     = 3
      }
    }
  }

  arm "chains_4" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 4
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
    }
  }

  arm "trees_4" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 2
        expansions = 2
        rounds     = 1
        leaves     = 3
      }
    }
  }

  arm "chains_8" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 8
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
    }
  }

  arm "trees_8" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 2
        expansions = 6
        rounds     = 1
        leaves     = 7
      }
    }
  }

  arm "chains_16" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 16
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
    }
  }

  arm "trees_16" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 4
        expansions = 5
        rounds     = 1
        leaves     = 6
      }
    }
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
