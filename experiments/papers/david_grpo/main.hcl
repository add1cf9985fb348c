# David-GRPO's tables: the small budget on three models, each part left out, and the settings that it tried.

include {
  files = ["../world.hcl", "../experts.hcl", "../../methods/search_r1.hcl", "../../methods/tree_grpo.hcl", "../../methods/stepsearch.hcl", "../../methods/david_grpo.hcl"]
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/david.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

variable "train_questions" {
  type        = number
  default     = 5276
  description = "the paper trains on 5,276 questions of HotpotQA"
}

dataset "train" {
  base  = dataset.hotpotqa_train
  limit = var.train_questions
  order = "given"
}

# The paper has four of them.
dataset "four_experts" {
  base  = dataset.experts
  order = "given"
}

policy "model" {
  path        = "${var.models}/Qwen2.5-1.5B"
  max_context = 9216
}

locals {
  test_temperature = 0.6
}

set "study" {
  policies = { main = policy.model }
  tools    = { search = tool.search }
  train    = dataset.train
}

set "low_budget" {
  stage "main" {
    steps     = 215
    questions = 24
  }
}

set "prompt" {
  agent { user = file(var.prompt) }
}

set "experts" {
  stage "seed" {
    train   = dataset.four_experts
    experts = dataset.four_experts
  }
}

# The paper's table 2: its low budget, three models.
ablation "main" {
  description = "Search-R1 v0.3, Tree-GRPO, StepSearch and David-GRPO on the low budget"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "search_r1_v03", model = "${var.models}/Qwen2.5-1.5B" }
  sets        = [set.study, set.several_hops]

  arm "tree_grpo" {
    experiment = experiment.tree_grpo
    sets       = [set.low_budget]
  }

  arm "stepsearch" {
    experiment = experiment.stepsearch
    sets       = [set.low_budget]
    stage "main" { questions = 120 }
  }

  arm "search_r1_v03" {
    experiment = experiment.search_r1_v03
    sets       = [set.low_budget]
  }

  arm "david_grpo" {
    experiment = experiment.david_grpo
    sets       = [set.prompt, set.experts]
  }

  axis "model" {
    path   = policies.main.path
    values = ["${var.models}/Qwen2.5-1.5B", "${var.models}/Llama-3.2-1B-Instruct", "${var.models}/Qwen2.5-0.5B"]
  }
}

# What each of the three parts is worth.
ablation "parts" {
  description = "David-GRPO without one of its parts"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "whole" }
  sets        = [set.study, set.several_hops, set.prompt, set.experts]

  set {
    remove = ["evaluate.wiki2", "evaluate.bamboogle"]
  }

  arm "whole" {
    experiment = experiment.david_grpo
  }

  arm "without_seeding" {
    experiment = experiment.david_grpo
    stages     = ["main"]
  }

  arm "without_continuation" {
    experiment = experiment.david_grpo
    sets       = [set.without_continuation]
  }

  arm "without_coverage" {
    experiment = experiment.david_grpo
    sets       = [set.without_coverage]
  }

  arm "f1_of_evidence" {
    experiment = experiment.david_grpo
    sets       = [set.f1_of_evidence]
  }

  arm "without_gates" {
    experiment = experiment.david_grpo
    sets       = [set.without_gates]
  }
}

# How much evidence weighs against the answer.
ablation "evidence_weight" {
  description = "The weight of evidence in the reward; the paper uses one half"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "half" }
  sets        = [set.study, set.several_hops, set.prompt, set.experts]

  set {
    remove = ["evaluate.wiki2", "evaluate.musique", "evaluate.bamboogle"]
  }

  arm "none" {
    experiment = experiment.david_grpo
    sets       = [set.without_coverage]
  }
  arm "quarter" {
    experiment = experiment.david_grpo
    sets       = [set.quarter_evidence]
  }
  arm "half" {
    experiment = experiment.david_grpo
  }
  arm "three_quarters" {
    experiment = experiment.david_grpo
    sets       = [set.three_quarters_evidence]
  }
}

# The two generations of the released loss.
ablation "loss" {
  description = "The reduction of the corrected release (C2) and that of the first one (C1)"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "corrected" }
  sets        = [set.study, set.several_hops, set.prompt, set.experts]

  set {
    remove = ["evaluate.wiki2", "evaluate.musique", "evaluate.bamboogle"]
  }

  arm "corrected" {
    experiment = experiment.david_grpo
  }
  arm "first_release" {
    experiment = experiment.david_grpo
    sets       = [set.first_release]
  }
}
