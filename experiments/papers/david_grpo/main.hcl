# David-GRPO's tables: the small budget on three models, each part left out, and the settings that it tried.

include {
  files = ["../world.hcl", "../../methods/search_r1.hcl", "../../methods/tree_grpo.hcl", "../../methods/stepsearch.hcl", "../../methods/david_grpo.hcl"]
}

variable "experts" {
  type        = string
  default     = "hotpotqa/experts.jsonl"
  description = "questions with expert transcripts (gold_response), a file in data; the paper has four"
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
  path  = "${var.data}/hotpotqa/train.jsonl"
  limit = var.train_questions
  order = "given"
}

dataset "experts" {
  path           = "${var.data}/${var.experts}"
  order          = "given"
  max_unresolved = 1 # the experts searched another copy of Wikipedia
}

policy "model" {
  path        = "${var.models}/Qwen2.5-1.5B"
  max_context = 9216
}

# The paper's table 2: its low budget, three models.
ablation "main" {
  description = "Search-R1 v0.3, Tree-GRPO, StepSearch and David-GRPO on the low budget"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique", "bamboogle"], "em")
  baseline    = { arm = "search_r1_v03", model = "${var.models}/Qwen2.5-1.5B" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train

    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      sampling = { temperature = 0.6 }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      sampling = { temperature = 0.6 }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      sampling = { temperature = 0.6 }
    }
    evaluate "bamboogle" {
      dataset  = dataset.bamboogle
      sampling = { temperature = 0.6 }
    }
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo
    stage "main" {
      steps     = 215
      questions = 24
    }
  }

  arm "stepsearch" {
    experiment = experiment.stepsearch
    stage "main" {
      steps     = 215
      questions = 120
    }
  }

  arm "search_r1_v03" {
    experiment = experiment.search_r1_v03
    stage "main" {
      steps     = 215
      questions = 24
    }
  }

  arm "david_grpo" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    stage "seed" {
      train   = dataset.experts
      experts = dataset.experts
    }
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

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train

    stage "seed" {
      train   = dataset.experts
      experts = dataset.experts
    }

    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      sampling = { temperature = 0.6 }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      sampling = { temperature = 0.6 }
    }
  }

  arm "whole" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
  }

  arm "without_seeding" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    stages = ["main"]
  }

  arm "without_continuation" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    stage "main" {
      algorithm "david-grpo" {
        continuation {
          enabled = false
        }
      }
    }
  }

  arm "without_coverage" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    reward {
      total = gates.value * outcome.value
    }
  }

  arm "f1_of_evidence" { # precision as well as recall of the evidence
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    reward {
      source "coverage" {
        reward "evidence-coverage" {
          measure = "f1"
        }
      }
    }
  }

  arm "without_gates" { # not in the paper: the gates are in its code alone
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    reward {
      total = 0.5 * coverage.value + 0.5 * outcome.value
    }
  }
}

# How much evidence weighs against the answer.
ablation "evidence_weight" {
  description = "The weight of evidence in the reward; the paper uses one half"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "half" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train
    stage "seed" {
      train   = dataset.experts
      experts = dataset.experts
    }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      sampling = { temperature = 0.6 }
    }
  }

  arm "none" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    reward {
      total = gates.value * outcome.value
    }
  }
  arm "quarter" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    reward {
      total = gates.value * (0.25 * coverage.value + 0.75 * outcome.value)
    }
  }
  arm "half" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
  }
  arm "three_quarters" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    reward {
      total = gates.value * (0.75 * coverage.value + 0.25 * outcome.value)
    }
  }
}

# The two generations of the released loss.
ablation "loss" {
  description = "The reduction of the corrected release (C2) and that of the first one (C1)"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "corrected" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train
    stage "seed" {
      train   = dataset.experts
      experts = dataset.experts
    }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      sampling = { temperature = 0.6 }
    }
  }

  arm "corrected" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
  }
  arm "first_release" {
    experiment = experiment.david_grpo
    agent {
      user = file(var.prompt)
    }
    stage "main" {
      algorithm "david-grpo" {
        loss = "c1"
      }
    }
  }
}
