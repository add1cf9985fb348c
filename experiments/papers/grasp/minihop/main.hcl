# The ablations of ../main.hcl in the embedded world, on a base that calls the three tools. "search_r1" has a base of its
# own protocol.

study {
  name = "grasp_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/grasp.hcl"]
}

ablation "main" {
  description = "Search-R1, and GRASP with and without training"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1_grpo" }

  arm "search_r1_grpo" {
    experiment = experiment.search_r1_small
  }

  arm "untrained" {
    experiment = experiment.grasp_small
    stages     = []
  }

  arm "grasp" {
    experiment = experiment.grasp_small
  }
}

ablation "tools" {
  description = "GRASP without one of its tools"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "all" }

  arm "all" {
    experiment = experiment.grasp_small
  }

  arm "without_semantic" {
    experiment = experiment.grasp_small
    sets       = [set.without_semantic]
  }

  arm "without_keyword" {
    experiment = experiment.grasp_small
    sets       = [set.without_keyword]
  }

  arm "without_read" {
    experiment = experiment.grasp_small
    sets       = [set.paragraphs]
  }
}

ablation "rewards" {
  description = "GRASP without one of the terms of its reward"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "all" }

  arm "all" {
    experiment = experiment.grasp_small
  }

  arm "without_read" {
    experiment = experiment.grasp_small
    sets       = [set.read_unrewarded]
  }

  arm "without_search" {
    experiment = experiment.grasp_small
    sets       = [set.search_unrewarded]
  }

  arm "without_efficiency" {
    experiment = experiment.grasp_small
    sets       = [set.efficiency_unrewarded]
  }

  arm "answer_only" {
    experiment = experiment.grasp_small
    sets       = [set.answer_only]
  }
}
