# AutoCoA's table: its stages alone and one after the other.

include {
  files = ["../world.hcl", "../single_hop.hcl", "../experts.hcl", "../../methods/prompting.hcl", "../../methods/search_r1.hcl", "../../methods/autocoa.hcl"]
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/coa.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

policy "model" {
  path        = "${var.models}/DeepSeek-R1-Distill-Qwen-7B"
  max_context = 9216
}

locals {
  test_temperature = 0.6
}

set "prompt" {
  agent { user = file(var.prompt) }
}

set "experts" {
  stage "how" {
    train   = dataset.experts
    experts = dataset.experts
  }
}

ablation "main" {
  description = "AutoCoA's stages, alone and one after the other"
  seeds       = var.seeds
  primary     = metric(concat(local.several_hops, ["nq", "triviaqa"]), "em")
  baseline    = { arm = "react" }
  sets        = [set.several_hops, set.one_hop]

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.hotpotqa_train
    remove   = ["evaluate.popqa"]
  }

  arm "no_tools" {
    experiment = experiment.think
  }

  arm "react" {
    experiment = experiment.autocoa
    stages     = []
    sets       = [set.prompt]
  }

  arm "sft_1" {
    experiment = experiment.autocoa
    stages     = ["when"]
    sets       = [set.prompt]
  }

  arm "sft_2" {
    experiment = experiment.autocoa
    stages     = ["how"]
    sets       = [set.prompt, set.experts]
  }

  arm "sft_1_2" {
    experiment = experiment.autocoa
    stages     = ["when", "how"]
    sets       = [set.prompt, set.experts]
  }

  arm "sft_1_2_3" {
    experiment = experiment.autocoa
    stages     = ["when", "how", "observe"]
    sets       = [set.prompt, set.experts]
    stage "observe" { # the same, trained on what the tool returned as well
      train   = dataset.experts
      experts = dataset.experts
      optimizer "adamw" { learning_rate = 5e-5 }
      schedule "cosine" {}
      algorithm "sft" {
        aggregation  = "token_mean"
        mini_batch   = 32
        observations = "trained"
      }
      steps     = 376
      questions = 32
    }
  }

  arm "rl_2" {
    experiment = experiment.autocoa
    stages     = ["reinforce"]
    sets       = [set.prompt]
  }

  arm "whole" {
    experiment = experiment.autocoa
    stages     = ["when", "how", "reinforce"]
    sets       = [set.prompt, set.experts]
  }
}
