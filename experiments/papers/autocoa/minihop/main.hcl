# The ablation of ../main.hcl in the embedded world.

study {
  name = "autocoa_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/baselines.hcl", "../../../minihop-methods/autocoa.hcl"]
}

ablation "main" {
  description = "AutoCoA's stages, alone and one after the other"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "react" }

  arm "no_tools" {
    experiment = experiment.prompting_small
    agent { tools = [] }
  }

  arm "react" {
    experiment = experiment.autocoa_small
    stages     = []
  }

  arm "sft_1" {
    experiment = experiment.autocoa_small
    stages     = ["when"]
  }

  arm "sft_2" {
    experiment = experiment.autocoa_small
    stages     = ["how"]
  }

  arm "sft_1_2" {
    experiment = experiment.autocoa_small
    stages     = ["when", "how"]
  }

  arm "sft_1_2_3" {
    experiment = experiment.autocoa_small
    stages     = ["when", "how", "observe"]
    stage "observe" {
      train   = dataset.experts
      experts = dataset.experts
      algorithm "sft" {
        mini_batch   = 8
        observations = "trained"
      }
      steps     = 25
      questions = 4
    }
  }

  arm "rl_2" {
    experiment = experiment.autocoa_small
    stages     = ["reinforce"]
  }

  arm "whole" {
    experiment = experiment.autocoa_small
    stages     = ["when", "how", "reinforce"]
  }
}
