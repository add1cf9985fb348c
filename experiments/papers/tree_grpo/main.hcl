# Tree-GRPO's tables: trees beside chains at equal budgets, the parts of the advantage, other budgets.

include {
  files = ["../world.hcl", "../single_hop.hcl", "../../methods/search_r1.hcl", "../../methods/tree_grpo.hcl", "../../methods/prompting.hcl"]
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/search_r1.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

dataset "train" {
  path = "${var.data}/hotpotqa/train.jsonl"
}

policy "model" {
  path        = "${var.models}/Qwen2.5-3B"
  max_context = 6144
}

locals {
  models = ["${var.models}/Qwen2.5-1.5B", "${var.models}/Qwen2.5-3B", "${var.models}/Llama-3.2-3B-Instruct", "${var.models}/Qwen2.5-7B", "${var.models}/Qwen2.5-14B"]
}

# Questions of several hops. "grpo" has four chains per question, "tree_grpo" six leaves for the price of about four.
ablation "main" {
  description = "Chains and trees at about equal cost, questions of several hops"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique", "bamboogle"], "em")
  baseline    = { arm = "grpo", model = "${var.models}/Qwen2.5-3B" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train

    evaluate "hotpotqa" {
      dataset = dataset.hotpotqa
      sampling {
        greedy = true
      }
    }
    evaluate "wiki2" {
      dataset = dataset.wiki2
      sampling {
        greedy = true
      }
    }
    evaluate "musique" {
      dataset = dataset.musique
      sampling {
        greedy = true
      }
    }
    evaluate "bamboogle" {
      dataset = dataset.bamboogle
      sampling {
        greedy = true
      }
    }
  }

  arm "direct" {
    experiment = experiment.direct
  }
  arm "search_o1" {
    experiment = experiment.search_o1
  }
  arm "grpo" {
    experiment = experiment.tree_grpo # four trees of one leaf: independent episodes
    agent {
      user = file(var.prompt)
    }
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 4
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
      schedule "constant" {
        warmup_steps = 90 # of 180 steps, as its script has it
      }
    }
  }
  arm "tree_grpo" {
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
  primary     = metric(["nq", "triviaqa", "popqa"], "em")
  baseline    = { arm = "grpo", model = "${var.models}/Qwen2.5-3B" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.nq_train

    evaluate "nq" {
      dataset = dataset.nq
      sampling {
        greedy = true
      }
    }
    evaluate "triviaqa" {
      dataset = dataset.triviaqa
      sampling {
        greedy = true
      }
    }
    evaluate "popqa" {
      dataset = dataset.popqa
      sampling {
        greedy = true
      }
    }
  }

  arm "grpo" {
    experiment = experiment.tree_grpo # four trees of one leaf: independent episodes
    agent {
      user = file(var.prompt)
    }
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 4
        expansions = 0
        rounds     = 0
        leaves     = 1
        advantage  = "grpo"
      }
      schedule "constant" {
        warmup_steps = 90 # of 180 steps, as its script has it
      }
    }
  }
  arm "tree_grpo" {
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
  primary     = metric(["hotpotqa", "wiki2", "musique", "bamboogle"], "em")
  baseline    = { arm = "chains_4" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train

    evaluate "hotpotqa" {
      dataset = dataset.hotpotqa
      sampling {
        greedy = true
      }
    }
    evaluate "wiki2" {
      dataset = dataset.wiki2
      sampling {
        greedy = true
      }
    }
    evaluate "musique" {
      dataset = dataset.musique
      sampling {
        greedy = true
      }
    }
    evaluate "bamboogle" {
      dataset = dataset.bamboogle
      sampling {
        greedy = true
      }
    }
  }

  arm "chains_2" {
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
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

# What the advantage is made of. Within a tree alone the paper saw it collapse.
ablation "advantage" {
  description = "Advantage within a tree, between all leaves of the question, and both"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique", "bamboogle"], "em")
  baseline    = { advantage = "tree" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train

    evaluate "hotpotqa" {
      dataset = dataset.hotpotqa
      sampling {
        greedy = true
      }
    }
    evaluate "wiki2" {
      dataset = dataset.wiki2
      sampling {
        greedy = true
      }
    }
    evaluate "musique" {
      dataset = dataset.musique
      sampling {
        greedy = true
      }
    }
    evaluate "bamboogle" {
      dataset = dataset.bamboogle
      sampling {
        greedy = true
      }
    }
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo
    agent {
      user = file(var.prompt)
    }
  }
  axis "advantage" {
    path   = stage.main.algorithm.advantage
    values = ["intra", "inter", "tree"]
  }
}
