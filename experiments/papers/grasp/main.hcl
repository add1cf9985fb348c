# GRASP's tables: the method beside retrieval in one step and Search-R1, without one of its tools, and without one of the
# terms of its reward.

include {
  files = ["../../methods/search_r1.hcl", "../../methods/search_r1_ppo.hcl", "../../methods/prompting.hcl", "../../methods/grasp.hcl"]
}

variable "data" {
  type        = string
  description = "folder with hotpotqa/train.json, hotpotqa/dev.json, 2wikimultihopqa/dev.json and musique/dev.jsonl as they are published, with their paragraphs"
}

variable "models" {
  type        = string
  description = "folder with the language models, each a folder in the format of Hugging Face"
}

variable "seeds" {
  type        = list(number)
  default     = [1, 2, 3, 4, 5]
  description = "seeds of each study; the paper reports one run"
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/grasp.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

# Gold documents are matched by title; MuSiQue's titles repeat, so there the paragraph counts.
dataset "train" {
  path       = "${var.data}/hotpotqa/train.json"
  gold_match = "title"
}

dataset "hotpotqa" {
  path       = "${var.data}/hotpotqa/dev.json"
  gold_match = "title"
  limit      = 500
  seed       = 42
}

dataset "wiki2" {
  base = dataset.hotpotqa
  path = "${var.data}/2wikimultihopqa/dev.json"
}

dataset "musique" {
  base       = dataset.hotpotqa
  path       = "${var.data}/musique/dev.jsonl"
  gold_match = null
}

policy "model" {
  path        = "${var.models}/Qwen2.5-3B-Instruct"
  max_context = 8192
}

# What all arms train and are tested on.
set "study" {
  policies = { main = policy.model }
  train    = dataset.train

  evaluate "hotpotqa" {
    dataset  = dataset.hotpotqa
    sampling = { greedy = true }
  }
  evaluate "wiki2" {
    dataset  = dataset.wiki2
    sampling = { greedy = true }
  }
  evaluate "musique" {
    dataset  = dataset.musique
    sampling = { greedy = true }
  }
}

# What an arm searches with: see search.hcl.

set "bm25" {
  tools = { search = tool.train_bm25 }
  evaluate "hotpotqa" { tools = { search = tool.hotpotqa_bm25 } }
  evaluate "wiki2" { tools = { search = tool.wiki2_bm25 } }
  evaluate "musique" { tools = { search = tool.musique_bm25 } }
}

set "dense" {
  tools = { search = tool.train_dense }
  evaluate "hotpotqa" { tools = { search = tool.hotpotqa_dense } }
  evaluate "wiki2" { tools = { search = tool.wiki2_dense } }
  evaluate "musique" { tools = { search = tool.musique_dense } }
}

set "hybrid" {
  tools = { search = tool.train_hybrid }
  evaluate "hotpotqa" { tools = { search = tool.hotpotqa_hybrid } }
  evaluate "wiki2" { tools = { search = tool.wiki2_hybrid } }
  evaluate "musique" { tools = { search = tool.musique_hybrid } }
}

set "grasp" {
  tools = { semantic_search = tool.train_semantic, keyword_search = tool.train_keyword, read_paragraph = tool.train_read }
  agent { system = file(var.prompt) }
  evaluate "hotpotqa" {
    tools = { semantic_search = tool.hotpotqa_semantic, keyword_search = tool.hotpotqa_keyword, read_paragraph = tool.hotpotqa_read }
  }
  evaluate "wiki2" {
    tools = { semantic_search = tool.wiki2_semantic, keyword_search = tool.wiki2_keyword, read_paragraph = tool.wiki2_read }
  }
  evaluate "musique" {
    tools = { semantic_search = tool.musique_semantic, keyword_search = tool.musique_keyword, read_paragraph = tool.musique_read }
  }
}

# Without reading both searches find paragraphs.
set "paragraphs" {
  tools = { semantic_search = tool.train_semantic_paragraphs, keyword_search = tool.train_keyword_paragraphs }
  agent { tools = ["semantic_search", "keyword_search"] }
  evaluate "hotpotqa" {
    tools = { semantic_search = tool.hotpotqa_semantic_paragraphs, keyword_search = tool.hotpotqa_keyword_paragraphs }
  }
  evaluate "wiki2" {
    tools = { semantic_search = tool.wiki2_semantic_paragraphs, keyword_search = tool.wiki2_keyword_paragraphs }
  }
  evaluate "musique" {
    tools = { semantic_search = tool.musique_semantic_paragraphs, keyword_search = tool.musique_keyword_paragraphs }
  }
}

# The table: retrieval in one step, IRCoT, Search-R1, the tools without training, and GRASP. All take five units a search.
ablation "main" {
  description = "Retrieval in one step, IRCoT, Search-R1, and GRASP with and without training"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique"], "em")
  baseline    = { arm = "search_r1_grpo" }
  sets        = [set.study]

  arm "one_step_bm25" {
    experiment = experiment.rag
    sets       = [set.bm25]
  }

  arm "one_step_dense" {
    experiment = experiment.rag
    sets       = [set.dense]
  }

  arm "one_step_hybrid" {
    experiment = experiment.rag
    sets       = [set.hybrid]
  }

  arm "ircot" {
    experiment = experiment.ircot
    sets       = [set.bm25]
  }

  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo
    sets       = [set.dense]
  }

  arm "search_r1_grpo" {
    experiment = experiment.search_r1
    sets       = [set.dense]
  }

  arm "untrained" {
    experiment = experiment.grasp
    stages     = []
    sets       = [set.grasp]
  }

  arm "grasp" {
    experiment = experiment.grasp
    sets       = [set.grasp]
  }
}

# Without one of the tools.
ablation "tools" {
  description = "GRASP without one of its tools"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "all" }
  sets        = [set.study, set.grasp]

  arm "all" {
    experiment = experiment.grasp
  }

  arm "without_semantic" {
    experiment = experiment.grasp
    sets       = [set.without_semantic]
  }

  arm "without_keyword" {
    experiment = experiment.grasp
    sets       = [set.without_keyword]
  }

  arm "without_read" {
    experiment = experiment.grasp
    sets       = [set.paragraphs]
  }
}

# Without one of the terms of the reward.
ablation "rewards" {
  description = "GRASP without one of the terms of its reward"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "all" }
  sets        = [set.study, set.grasp]

  set {
    remove = ["evaluate.wiki2", "evaluate.musique"]
  }

  arm "all" {
    experiment = experiment.grasp
  }

  arm "without_read" {
    experiment = experiment.grasp
    sets       = [set.read_unrewarded]
  }

  arm "without_search" {
    experiment = experiment.grasp
    sets       = [set.search_unrewarded]
  }

  arm "without_efficiency" {
    experiment = experiment.grasp
    sets       = [set.efficiency_unrewarded]
  }

  arm "answer_only" {
    experiment = experiment.grasp
    sets       = [set.answer_only]
  }
}
