# The ablations of ../main.hcl in the embedded world, on a base that acts in the protocol of fields.

study {
  name = "frugalrag_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop/fields.hcl", "../../../minihop-methods/frugalrag.hcl"]
}

ablation "main" {
  description = "Exploring to the end, free to finish, and FrugalRAG"
  seeds       = var.seeds
  primary     = metric("test", "evidence_recall")
  baseline    = { arm = "explore" }

  arm "react" {
    experiment = experiment.frugalrag_small
    stages     = []
  }

  arm "explore" {
    experiment = experiment.frugalrag_small
    stages     = ["explore", "tune"]
    agent      = agent.minihop_fields_search
  }

  arm "sft_with_finish" {
    experiment = experiment.frugalrag_small
    stages     = ["explore", "tune"]
  }

  arm "frugalrag" {
    experiment = experiment.frugalrag_small
  }
}

ablation "parts" {
  description = "FrugalRAG without stage 1, without a price for late stops, and learning from runs that can finish alone"
  seeds       = var.seeds
  primary     = metric("test", "evidence_recall")
  baseline    = { arm = "whole" }

  arm "whole" {
    experiment = experiment.frugalrag_small
  }

  arm "without_stage_1" {
    experiment = experiment.frugalrag_small
    sets       = [set.without_stage_1]
  }

  arm "without_late_penalty" {
    experiment = experiment.frugalrag_small
    sets       = [set.without_late_penalty]
  }

  arm "finish_only" {
    experiment = experiment.frugalrag_small
    sets       = [set.finish_only]
  }
}
