# The ablations of ../main.hcl in the embedded world.

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/tree_grpo.hcl", "../../../minihop-methods/stepsearch.hcl"]
}

ablation "main" {
  description = "Search-R1, Tree-GRPO, StepSearch and David-GRPO on one small budget"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1_v03", base = "minihop/never" }
  sets        = [set.elsewhere]

  arm "tree_grpo" {
    experiment = experiment.tree_grpo_small
  }

  arm "stepsearch" {
    experiment = experiment.stepsearch_small
  }

  arm "search_r1_v03" {
    experiment = experiment.search_r1_small
  }

  arm "david_grpo" {
    experiment = experiment.david_small
  }

  axis "base" {
    path   = policies.main.builtin
    values = ["minihop/habit", "minihop/never"]
  }
}

ablation "parts" {
  description = "David-GRPO without one of its parts"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "whole" }

  set {
    policies = { main = policy.never }
  }

  arm "whole" {
    experiment = experiment.david_small
  }

  arm "without_seeding" {
    experiment = experiment.david_small
    stages     = ["main"]
  }

  arm "without_continuation" {
    experiment = experiment.david_small
    stage "main" {
      algorithm "david-grpo" {
        continuation {
          enabled = false
        }
      }
    }
  }

  arm "without_coverage" {
    experiment = experiment.david_small
    reward {
      total = gates.value * outcome.value
    }
  }

  arm "f1_of_evidence" {
    experiment = experiment.david_small
    reward {
      source "coverage" {
        reward "evidence-coverage" {
          measure = "f1"
        }
      }
    }
  }

  arm "without_gates" {
    experiment = experiment.david_small
    reward {
      total = 0.5 * coverage.value + 0.5 * outcome.value
    }
  }
}

ablation "evidence_weight" {
  description = "The weight of evidence in the reward"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "half" }

  set {
    policies = { main = policy.never }
  }

  arm "none" {
    experiment = experiment.david_small
    reward {
      total = gates.value * outcome.value
    }
  }

  arm "quarter" {
    experiment = experiment.david_small
    reward {
      total = gates.value * (0.25 * coverage.value + 0.75 * outcome.value)
    }
  }

  arm "half" {
    experiment = experiment.david_small
  }

  arm "three_quarters" {
    experiment = experiment.david_small
    reward {
      total = gates.value * (0.75 * coverage.value + 0.25 * outcome.value)
    }
  }
}

ablation "loss" {
  description = "The reduction of the corrected release (C2) and that of the first one (C1)"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "corrected" }

  set {
    policies = { main = policy.never }
  }

  arm "corrected" {
    experiment = experiment.david_small
  }

  arm "first_release" {
    experiment = experiment.david_small
    stage "main" {
      algorithm "david-grpo" {
        loss = "c1"
      }
    }
  }
}
