# StepSearch's tables: the method beside Search-R1 on the same data, each part of the step reward left out, and each
# alone.

include {
  files = ["../world.hcl", "../../methods/search_r1.hcl", "../../methods/search_r1_ppo.hcl", "../../methods/stepsearch.hcl"]
}

variable "passages" {
  type        = string
  default     = "musique/corpus.jsonl"
  description = "the passages that are searched in training, a file in data; they hold the gold paragraphs word for word"
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/stepsearch.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

# MuSiQue with search keys and gold paragraphs of each step, as StepSearch publishes it.
dataset "train" {
  path = "${var.data}/musique/musi_answerable_train.jsonl"
}

corpus "passages" {
  path = "${var.data}/${var.passages}"
}

index "passages" {
  base   = index.wiki
  corpus = corpus.passages
}

tool "passages" {
  base = tool.search
  retriever "bm25" { index = index.passages }
}

policy "model" {
  path        = "${var.models}/Qwen2.5-7B"
  max_context = 8192
}

policy "small" {
  base = policy.model
  path = "${var.models}/Qwen2.5-3B"
}

locals {
  test_temperature = 1
}

# Training searches the passages of its own dataset, the tests those of Wikipedia.
set "study" {
  policies = { main = policy.model }
  tools    = { search = tool.passages }
  train    = dataset.train
}

set "prompt" {
  agent { user = file(var.prompt) }
}

# The main table; ZeroSearch and ReSearch are other programs and not offered.
ablation "main" {
  description = "Search-R1 and StepSearch, four models"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "search_r1", model = "${var.models}/Qwen2.5-7B" }
  sets        = [set.study, set.several_hops]

  arm "search_r1" {
    experiment = experiment.search_r1_ppo
  }
  arm "stepsearch" {
    experiment = experiment.stepsearch
    sets       = [set.prompt]
  }
  axis "model" {
    path   = policies.main.path
    values = ["${var.models}/Qwen2.5-3B", "${var.models}/Qwen2.5-3B-Instruct", "${var.models}/Qwen2.5-7B", "${var.models}/Qwen2.5-7B-Instruct"]
  }
}

# The same data, model and search engine under other algorithms.
ablation "same_data" {
  description = "PPO, GRPO and StePPO on the same data"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "ppo", model = "${var.models}/Qwen2.5-7B" }
  sets        = [set.study, set.several_hops]

  arm "ppo" {
    experiment = experiment.search_r1_ppo
  }
  arm "grpo" {
    experiment = experiment.search_r1
  }
  arm "stepsearch" {
    experiment = experiment.stepsearch
    sets       = [set.prompt]
  }
  axis "model" {
    path   = policies.main.path
    values = ["${var.models}/Qwen2.5-3B", "${var.models}/Qwen2.5-7B"]
  }
}

# Each part of the reward left out.
ablation "without" {
  description = "StepSearch without one part of its reward"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "whole" }
  sets        = [set.study, set.several_hops, set.prompt]

  arm "whole" {
    experiment = experiment.stepsearch
  }
  arm "without_keys" {
    experiment = experiment.stepsearch
    sets       = [set.without_keys]
  }
  arm "without_penalty" {
    experiment = experiment.stepsearch
    sets       = [set.without_penalty]
  }
  arm "without_gain" {
    experiment = experiment.stepsearch
    sets       = [set.without_gain]
  }
  arm "without_steps" {
    experiment = experiment.stepsearch
    sets       = [set.without_steps]
  }
}

# Each part alone beside the answer, on the smaller model.
ablation "only" {
  description = "StepSearch with one part of its reward only"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "gain" }
  sets        = [set.study, set.several_hops, set.prompt]

  set {
    policies = { main = policy.small }
  }

  arm "keys" {
    experiment = experiment.stepsearch
    sets       = [set.without_steps]
  }
  arm "penalty" {
    experiment = experiment.stepsearch
    sets       = [set.without_keys, set.without_gain]
  }
  arm "gain" {
    experiment = experiment.stepsearch
    sets       = [set.without_keys, set.without_penalty]
  }
  arm "steps" {
    experiment = experiment.stepsearch
    sets       = [set.without_keys]
  }
  arm "answer" {
    experiment = experiment.stepsearch
    sets       = [set.without_keys, set.without_steps]
  }
}

# What the release does and what its code means: the factor of a search's reward, repeated queries, repeated documents.
ablation "release" {
  description = "The release's reward and the one that was meant"
  seeds       = var.seeds
  primary     = metric(local.several_hops, "em")
  baseline    = { arm = "released" }
  sets        = [set.study, set.several_hops, set.prompt]

  arm "released" {
    experiment = experiment.stepsearch
  }
  arm "meant" {
    experiment = experiment.stepsearch
    reward {
      source "keys" {
        reward "stepsearch-keys" { repeated = "max" }
      }
      source "steps" {
        reward "stepsearch-steps" {
          step_scale = 0.6
          documents  = "hits"
          redundancy = "document"
        }
      }
    }
  }
}
