# The ablations of ../main.hcl in the embedded world.

study {
  name = "david_grpo_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/tree_grpo.hcl", "../../../minihop-methods/stepsearch.hcl", "../parts.hcl"]
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

set "never" {
  policies = { main = policy.never }
}

ablation "parts" {
  description = "David-GRPO without one of its parts"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "whole" }
  sets        = [set.never]

  arm "whole" {
    experiment = experiment.david_small
  }

  arm "without_seeding" {
    experiment = experiment.david_small
    stages     = ["main"]
  }

  arm "without_continuation" {
    experiment = experiment.david_small
    sets       = [set.without_continuation]
  }

  arm "without_coverage" {
    experiment = experiment.david_small
    sets       = [set.without_coverage]
  }

  arm "f1_of_evidence" {
    experiment = experiment.david_small
    sets       = [set.f1_of_evidence]
  }

  arm "without_gates" {
    experiment = experiment.david_small
    sets       = [set.without_gates]
  }
}

ablation "evidence_weight" {
  description = "The weight of evidence in the reward"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "half" }
  sets        = [set.never]

  arm "none" {
    experiment = experiment.david_small
    sets       = [set.without_coverage]
  }

  arm "quarter" {
    experiment = experiment.david_small
    sets       = [set.quarter_evidence]
  }

  arm "half" {
    experiment = experiment.david_small
  }

  arm "three_quarters" {
    experiment = experiment.david_small
    sets       = [set.three_quarters_evidence]
  }
}

ablation "loss" {
  description = "The reduction of the corrected release (C2) and that of the first one (C1)"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "corrected" }
  sets        = [set.never]

  arm "corrected" {
    experiment = experiment.david_small
  }

  arm "first_release" {
    experiment = experiment.david_small
    sets       = [set.first_release]
  }
}
