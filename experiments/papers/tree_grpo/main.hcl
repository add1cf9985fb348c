# Tree-GRPO's tables: trees beside chains at equal budgets, the parts of the advantage, other budgets.

include {
  files = ["../world.hcl", "../single_hop.hcl", "../../methods/search_r1.hcl", "../../methods/tree_grpo.hcl", "../../methods/prompting.hcl"]
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/search_r1.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

policy "model" {
  path        = "${var.models}/Qwen2.5-3B"
  max_context = 6144
}

locals {
  test_temperature = 0 # greedy
  models           = ["${var.models}/Qwen2.5-1.5B", "${var.models}/Qwen2.5-3B", "${var.models}/Llama-3.2-3B-Instruct", "${var.models}/Qwen2.5-7B", "${var.models}/Qwen2.5-14B"]
}

set "study" {
  policies = { main = policy.model }
  tools    = { search = tool.search }
  train    = dataset.hotpotqa_train
}

set "prompt" {
  agent { user = file(var.prompt) }
}

set "half_warmup" {
  stage "main" {
    schedule "constant" {
      warmup_steps = 90 # of 180 steps, as the script of the chains has it
    }
  }
}

# Questions of several hops. "grpo" has four chains per question, "tree_grpo" six leaves for the price of about four.
ablation "main" {
  description = "Chains and trees at about equal cost, questions of several hops"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "grpo", model = "${var.models}/Qwen2.5-3B" }
  sets        = [set.study, set.several_hops]

  arm "direct" {
    experiment = experiment.direct
  }
  arm "search_o1" {
    experiment = experiment.search_o1
  }
  arm "grpo" {
    experiment = experiment.tree_grpo
    sets       = [set.prompt, set.chains, set.half_warmup]
  }
  arm "tree_grpo" {
    experiment = experiment.tree_grpo
    sets       = [set.prompt]
  }
  axis "model" {
    path   = policies.main.path
    values = local.models
  }
}

# Questions of one hop: trained on NQ.
ablation "single_hop" {
  description = "Chains and trees, questions of one hop"
  seeds       = var.seeds
  primary     = metric(local.one_hop, "em")
  baseline    = { arm = "grpo", model = "${var.models}/Qwen2.5-3B" }
  sets        = [set.study, set.one_hop, set.prompt]

  set {
    train = dataset.nq_train
  }

  arm "grpo" {
    experiment = experiment.tree_grpo
    sets       = [set.chains, set.half_warmup]
  }
  arm "tree_grpo" {
    experiment = experiment.tree_grpo
  }
  axis "model" {
    path   = policies.main.path
    values = local.models
  }
}

# The table of budgets: trees of the price of 2, 4, 8 and about 16 chains.
ablation "budget" {
  description = "Trees and chains at budgets of 2, 4, 8 and 16 chains per question"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "chains_4" }
  sets        = [set.study, set.several_hops, set.prompt]

  arm "chains_2" {
    experiment = experiment.tree_grpo
    sets       = [set.chains, set.chains_2]
  }
  arm "trees_2" {
    experiment = experiment.tree_grpo
    sets       = [set.trees_2]
  }
  arm "chains_4" {
    experiment = experiment.tree_grpo
    sets       = [set.chains]
  }
  arm "trees_4" {
    experiment = experiment.tree_grpo
    sets       = [set.trees_4]
  }
  arm "chains_8" {
    experiment = experiment.tree_grpo
    sets       = [set.chains, set.chains_8]
  }
  arm "trees_8" {
    experiment = experiment.tree_grpo
    sets       = [set.trees_8]
  }
  arm "chains_16" {
    experiment = experiment.tree_grpo
    sets       = [set.chains, set.chains_16]
  }
  arm "trees_16" {
    experiment = experiment.tree_grpo
    sets       = [set.trees_16]
  }
}

# What the advantage is made of. Within a tree alone the paper saw it collapse.
ablation "advantage" {
  description = "Advantage within a tree, between all leaves of the question, and both"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { advantage = "tree" }
  sets        = [set.study, set.several_hops, set.prompt]

  arm "tree_grpo" {
    experiment = experiment.tree_grpo
  }
  axis "advantage" {
    path   = stage.main.algorithm.advantage
    values = ["intra", "inter", "tree"]
  }
}
