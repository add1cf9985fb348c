# Search-R1's tables: the method beside prompting and training without search, PPO beside GRPO, masking, the number of
# passages, the size of the group; and the study of rewards and search engines that followed it.

include {
  files = ["../world.hcl", "../single_hop.hcl", "../experts.hcl", "../../methods/search_r1.hcl", "../../methods/search_r1_ppo.hcl", "../../methods/prompting.hcl", "../../methods/baselines.hcl", "../../methods/sft.hcl"]
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/search_r1.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

# The paper trains on both sets together.
dataset "train" {
  concat = [dataset.nq_train, dataset.hotpotqa_train]
}

policy "model" {
  path        = "${var.models}/Qwen2.5-7B"
  max_context = 6144
}

locals {
  test_temperature = 1
  tests            = concat(local.one_hop, local.several_hops)
  models           = ["${var.models}/Qwen2.5-7B", "${var.models}/Qwen2.5-7B-Instruct", "${var.models}/Qwen2.5-3B", "${var.models}/Qwen2.5-3B-Instruct"]
}

# What all arms train with; they are tested on seven datasets.
set "study" {
  policies = { main = policy.model }
  tools    = { search = tool.search }
  train    = dataset.train
}

set "prompt" {
  agent { user = file(var.prompt) }
}

# The main table. Rejection sampling, ZeroSearch and RL without search tools in the loop of another trainer are other
# programs and not offered.
ablation "main" {
  description = "Search-R1 with PPO and GRPO, prompting, and training without search"
  seeds       = var.seeds
  primary     = metric(local.tests, "em")
  baseline    = { arm = "rag", model = "${var.models}/Qwen2.5-7B" }
  sets        = [set.study, set.one_hop, set.several_hops]

  arm "direct" {
    experiment = experiment.direct
  }
  arm "rag" {
    experiment = experiment.rag
  }
  arm "ircot" {
    experiment = experiment.ircot
  }
  arm "search_o1" {
    experiment = experiment.search_o1
  }
  arm "sft" {
    experiment = experiment.sft
    agent      = agent.search_r1
    stage "main" {
      train   = dataset.experts
      experts = dataset.experts
    }
  }
  arm "r1_without_search" {
    experiment = experiment.r1
  }
  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo
    sets       = [set.prompt]
  }
  arm "search_r1_grpo" {
    experiment = experiment.search_r1
    sets       = [set.prompt]
  }

  axis "model" {
    path   = policies.main.path
    values = local.models
  }
}

# Training on what the tool returned as well: the table on masking.
ablation "masking" {
  description = "PPO with and without the mask on retrieved tokens"
  seeds       = var.seeds
  primary     = metric(local.tests, "em")
  baseline    = { arm = "masked" }
  sets        = [set.study, set.one_hop, set.several_hops, set.prompt]

  arm "masked" {
    experiment = experiment.search_r1_ppo
  }
  arm "unmasked" {
    experiment = experiment.search_r1_ppo
    stage "main" {
      algorithm "search-r1" { mask_observations = false }
    }
  }
}

# How many passages a search returns.
ablation "passages" {
  description = "One, three and five passages per search"
  seeds       = var.seeds
  primary     = metric(local.tests, "em")
  baseline    = { k = 3 }
  sets        = [set.study, set.one_hop, set.several_hops, set.prompt]

  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo
  }
  axis "k" {
    path   = tools.search.k
    values = [1, 3, 5]
  }
}

# How many episodes a question gets under GRPO. A group of one has nothing to be compared with: its advantage is its
# reward.
ablation "group" {
  description = "Groups of one, three and five"
  seeds       = var.seeds
  primary     = metric(local.tests, "em")
  baseline    = { group = 5 }
  sets        = [set.study, set.one_hop, set.several_hops, set.prompt]

  arm "search_r1_grpo" {
    experiment = experiment.search_r1
  }
  axis "group" {
    path   = stage.main.algorithm.group_size
    values = [1, 3, 5]
  }
}

# The second paper: rewards for the form and for what was found.
ablation "rewards" {
  description = "The answer alone, with the form, and with what was found"
  seeds       = var.seeds
  primary     = metric(local.tests, "em")
  baseline    = { arm = "answer" }
  sets        = [set.study, set.one_hop, set.several_hops, set.prompt]

  arm "answer" {
    experiment = experiment.search_r1_ppo
  }
  arm "form" {
    experiment = experiment.search_r1_ppo_v03
  }
  arm "form_and_retrieval" {
    experiment = experiment.search_r1_ppo_v03
    reward {
      source "outcome" {
        reward "searchr1-format" { retrieval_score = 0.1 }
      }
    }
  }
  arm "form_grpo" {
    experiment = experiment.search_r1_v03
  }
}

# The second paper: what the search engine is worth in training. Its E5 indexes are not supported; hashed vectors are
# the weak engine here.
encoder "hashed" {
  kind       = "hashed"
  dimensions = 256
}

index "hashed" {
  corpus  = corpus.wiki
  encoder = encoder.hashed
  unit    = "document"
  hnsw {}
}

tool "weak" {
  retriever "dense" {
    index = index.hashed
    k     = var.k
  }
}

ablation "engines" {
  description = "Trained with a weak and with a better search engine, tested with the better one"
  seeds       = var.seeds
  primary     = metric(local.tests, "em")
  baseline    = { arm = "bm25" }
  sets        = [set.study, set.one_hop, set.several_hops, set.prompt]

  arm "bm25" {
    experiment = experiment.search_r1_ppo
  }
  arm "hashed" {
    experiment = experiment.search_r1_ppo
    tools      = { search = tool.weak }
  }
}
