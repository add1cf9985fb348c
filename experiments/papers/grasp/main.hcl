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

variable "system_prompt" {
  type        = string
  default     = "../../methods/prompts/grasp.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

# What is searched in training are all paragraphs of the training questions, in tests those of all development questions.
corpus "train" {
  path = "${var.data}/hotpotqa/train.json"
}

corpus "hotpotqa" {
  path = "${var.data}/hotpotqa/dev.json"
}

corpus "wiki2" {
  path = "${var.data}/2wikimultihopqa/dev.json"
}

corpus "musique" {
  path = "${var.data}/musique/dev.jsonl"
}

# The paper's encoder is a language model; those are not supported yet. Hashed vectors stand in its place.
encoder "hashed" {
  kind       = "hashed"
  dimensions = 1024
}

index "train_sentences" {
  corpus  = corpus.train
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    m               = 32
    ef_construction = 200
    ef_search       = 128
  }
}

index "train_sentence_words" {
  corpus = corpus.train
  unit   = "sentence"
  bm25 {}
}

tool "train_semantic" {
  retriever "semantic_search" {
    index = index.train_sentences
    k     = 5
  }
}

tool "train_keyword" {
  retriever "keyword_search" {
    index = index.train_sentence_words
    k     = 5
  }
}

tool "train_read" {
  retriever "read_paragraph" {
    corpus = corpus.train
  }
}

index "hotpotqa_sentences" {
  corpus  = corpus.hotpotqa
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    m               = 32
    ef_construction = 200
    ef_search       = 128
  }
}

index "hotpotqa_sentence_words" {
  corpus = corpus.hotpotqa
  unit   = "sentence"
  bm25 {}
}

tool "hotpotqa_semantic" {
  retriever "semantic_search" {
    index = index.hotpotqa_sentences
    k     = 5
  }
}

tool "hotpotqa_keyword" {
  retriever "keyword_search" {
    index = index.hotpotqa_sentence_words
    k     = 5
  }
}

tool "hotpotqa_read" {
  retriever "read_paragraph" {
    corpus = corpus.hotpotqa
  }
}

index "wiki2_sentences" {
  corpus  = corpus.wiki2
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    m               = 32
    ef_construction = 200
    ef_search       = 128
  }
}

index "wiki2_sentence_words" {
  corpus = corpus.wiki2
  unit   = "sentence"
  bm25 {}
}

tool "wiki2_semantic" {
  retriever "semantic_search" {
    index = index.wiki2_sentences
    k     = 5
  }
}

tool "wiki2_keyword" {
  retriever "keyword_search" {
    index = index.wiki2_sentence_words
    k     = 5
  }
}

tool "wiki2_read" {
  retriever "read_paragraph" {
    corpus = corpus.wiki2
  }
}

index "musique_sentences" {
  corpus  = corpus.musique
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    m               = 32
    ef_construction = 200
    ef_search       = 128
  }
}

index "musique_sentence_words" {
  corpus = corpus.musique
  unit   = "sentence"
  bm25 {}
}

tool "musique_semantic" {
  retriever "semantic_search" {
    index = index.musique_sentences
    k     = 5
  }
}

tool "musique_keyword" {
  retriever "keyword_search" {
    index = index.musique_sentence_words
    k     = 5
  }
}

tool "musique_read" {
  retriever "read_paragraph" {
    corpus = corpus.musique
  }
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
  path       = "${var.data}/2wikimultihopqa/dev.json"
  gold_match = "title"
  limit      = 500
  seed       = 42
}

dataset "musique" {
  path  = "${var.data}/musique/dev.jsonl"
  limit = 500
  seed  = 42
}

index "train_paragraphs" {
  corpus  = corpus.train
  encoder = encoder.hashed
  unit    = "paragraph"
  hnsw {}
}

index "train_paragraph_words" {
  corpus = corpus.train
  unit   = "paragraph"
  bm25 {}
}

tool "train_semantic_paragraphs" {
  retriever "semantic_search" {
    index = index.train_paragraphs
    k     = 5
    level = "paragraph"
  }
}

tool "train_keyword_paragraphs" {
  retriever "keyword_search" {
    index = index.train_paragraph_words
    k     = 5
    level = "paragraph"
  }
}

index "hotpotqa_paragraphs" {
  corpus  = corpus.hotpotqa
  encoder = encoder.hashed
  unit    = "paragraph"
  hnsw {}
}

index "hotpotqa_paragraph_words" {
  corpus = corpus.hotpotqa
  unit   = "paragraph"
  bm25 {}
}

tool "hotpotqa_semantic_paragraphs" {
  retriever "semantic_search" {
    index = index.hotpotqa_paragraphs
    k     = 5
    level = "paragraph"
  }
}

tool "hotpotqa_keyword_paragraphs" {
  retriever "keyword_search" {
    index = index.hotpotqa_paragraph_words
    k     = 5
    level = "paragraph"
  }
}

index "wiki2_paragraphs" {
  corpus  = corpus.wiki2
  encoder = encoder.hashed
  unit    = "paragraph"
  hnsw {}
}

index "wiki2_paragraph_words" {
  corpus = corpus.wiki2
  unit   = "paragraph"
  bm25 {}
}

tool "wiki2_semantic_paragraphs" {
  retriever "semantic_search" {
    index = index.wiki2_paragraphs
    k     = 5
    level = "paragraph"
  }
}

tool "wiki2_keyword_paragraphs" {
  retriever "keyword_search" {
    index = index.wiki2_paragraph_words
    k     = 5
    level = "paragraph"
  }
}

index "musique_paragraphs" {
  corpus  = corpus.musique
  encoder = encoder.hashed
  unit    = "paragraph"
  hnsw {}
}

index "musique_paragraph_words" {
  corpus = corpus.musique
  unit   = "paragraph"
  bm25 {}
}

tool "musique_semantic_paragraphs" {
  retriever "semantic_search" {
    index = index.musique_paragraphs
    k     = 5
    level = "paragraph"
  }
}

tool "musique_keyword_paragraphs" {
  retriever "keyword_search" {
    index = index.musique_paragraph_words
    k     = 5
    level = "paragraph"
  }
}

tool "train_hybrid" {
  retriever "hybrid" {
    dense  = index.train_paragraphs
    sparse = index.train_paragraph_words
    k      = 5
  }
}

tool "train_bm25" {
  retriever "bm25" {
    index = index.train_paragraph_words
    k     = 5
  }
}

tool "train_dense" {
  retriever "dense" {
    index = index.train_paragraphs
    k     = 5
  }
}

tool "hotpotqa_hybrid" {
  retriever "hybrid" {
    dense  = index.hotpotqa_paragraphs
    sparse = index.hotpotqa_paragraph_words
    k      = 5
  }
}

tool "hotpotqa_bm25" {
  retriever "bm25" {
    index = index.hotpotqa_paragraph_words
    k     = 5
  }
}

tool "hotpotqa_dense" {
  retriever "dense" {
    index = index.hotpotqa_paragraphs
    k     = 5
  }
}

tool "wiki2_hybrid" {
  retriever "hybrid" {
    dense  = index.wiki2_paragraphs
    sparse = index.wiki2_paragraph_words
    k      = 5
  }
}

tool "wiki2_bm25" {
  retriever "bm25" {
    index = index.wiki2_paragraph_words
    k     = 5
  }
}

tool "wiki2_dense" {
  retriever "dense" {
    index = index.wiki2_paragraphs
    k     = 5
  }
}

tool "musique_hybrid" {
  retriever "hybrid" {
    dense  = index.musique_paragraphs
    sparse = index.musique_paragraph_words
    k      = 5
  }
}

tool "musique_bm25" {
  retriever "bm25" {
    index = index.musique_paragraph_words
    k     = 5
  }
}

tool "musique_dense" {
  retriever "dense" {
    index = index.musique_paragraphs
    k     = 5
  }
}

policy "model" {
  path        = "${var.models}/Qwen2.5-3B-Instruct"
  max_context = 8192
}

# The table: retrieval in one step, IRCoT, Search-R1, the tools without training, and GRASP. All take five units a search.
ablation "main" {
  description = "Retrieval in one step, IRCoT, Search-R1, and GRASP with and without training"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique"], "em")
  baseline    = { arm = "search_r1_grpo" }

  set {
    policies = { main = policy.model }
    train    = dataset.train
  }

  arm "one_step_bm25" {
    experiment = experiment.rag
    tools      = { search = tool.train_bm25 }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { search = tool.hotpotqa_bm25 }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { search = tool.wiki2_bm25 }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { search = tool.musique_bm25 }
      sampling = { greedy = true }
    }
  }

  arm "one_step_dense" {
    experiment = experiment.rag
    tools      = { search = tool.train_dense }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { search = tool.hotpotqa_dense }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { search = tool.wiki2_dense }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { search = tool.musique_dense }
      sampling = { greedy = true }
    }
  }

  arm "one_step_hybrid" {
    experiment = experiment.rag
    tools      = { search = tool.train_hybrid }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { search = tool.hotpotqa_hybrid }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { search = tool.wiki2_hybrid }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { search = tool.musique_hybrid }
      sampling = { greedy = true }
    }
  }

  arm "ircot" {
    experiment = experiment.ircot
    tools      = { search = tool.train_bm25 }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { search = tool.hotpotqa_bm25 }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { search = tool.wiki2_bm25 }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { search = tool.musique_bm25 }
      sampling = { greedy = true }
    }
  }

  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo
    tools      = { search = tool.train_dense }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { search = tool.hotpotqa_dense }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { search = tool.wiki2_dense }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { search = tool.musique_dense }
      sampling = { greedy = true }
    }
  }

  arm "search_r1_grpo" {
    experiment = experiment.search_r1
    tools      = { search = tool.train_dense }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { search = tool.hotpotqa_dense }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { search = tool.wiki2_dense }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { search = tool.musique_dense }
      sampling = { greedy = true }
    }
  }

  arm "untrained" {
    experiment = experiment.grasp
    stages     = []
    tools      = { semantic_search = tool.train_semantic, keyword_search = tool.train_keyword, read_paragraph = tool.train_read }
    agent {
      system = file(var.system_prompt)
    }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { semantic_search = tool.hotpotqa_semantic, keyword_search = tool.hotpotqa_keyword, read_paragraph = tool.hotpotqa_read }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { semantic_search = tool.wiki2_semantic, keyword_search = tool.wiki2_keyword, read_paragraph = tool.wiki2_read }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { semantic_search = tool.musique_semantic, keyword_search = tool.musique_keyword, read_paragraph = tool.musique_read }
      sampling = { greedy = true }
    }
  }

  arm "grasp" {
    experiment = experiment.grasp
    tools      = { semantic_search = tool.train_semantic, keyword_search = tool.train_keyword, read_paragraph = tool.train_read }
    agent {
      system = file(var.system_prompt)
    }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { semantic_search = tool.hotpotqa_semantic, keyword_search = tool.hotpotqa_keyword, read_paragraph = tool.hotpotqa_read }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { semantic_search = tool.wiki2_semantic, keyword_search = tool.wiki2_keyword, read_paragraph = tool.wiki2_read }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { semantic_search = tool.musique_semantic, keyword_search = tool.musique_keyword, read_paragraph = tool.musique_read }
      sampling = { greedy = true }
    }
  }
}

# Without one of the tools. Without reading, both searches find paragraphs.
ablation "tools" {
  description = "GRASP without one of its tools"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "all" }

  set {
    policies = { main = policy.model }
    train    = dataset.train
    tools    = { semantic_search = tool.train_semantic, keyword_search = tool.train_keyword, read_paragraph = tool.train_read }
    agent {
      system = file(var.system_prompt)
    }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { semantic_search = tool.hotpotqa_semantic, keyword_search = tool.hotpotqa_keyword, read_paragraph = tool.hotpotqa_read }
      sampling = { greedy = true }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      tools    = { semantic_search = tool.wiki2_semantic, keyword_search = tool.wiki2_keyword, read_paragraph = tool.wiki2_read }
      sampling = { greedy = true }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      tools    = { semantic_search = tool.musique_semantic, keyword_search = tool.musique_keyword, read_paragraph = tool.musique_read }
      sampling = { greedy = true }
    }
  }

  arm "all" {
    experiment = experiment.grasp
  }

  arm "without_semantic" {
    experiment = experiment.grasp
    agent {
      tools = ["keyword_search", "read_paragraph"]
    }
  }

  arm "without_keyword" {
    experiment = experiment.grasp
    agent {
      tools = ["semantic_search", "read_paragraph"]
    }
  }

  arm "without_read" {
    experiment = experiment.grasp
    tools      = { semantic_search = tool.train_semantic_paragraphs, keyword_search = tool.train_keyword_paragraphs }
    agent {
      tools = ["semantic_search", "keyword_search"]
    }
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
}

# Without one of the terms of the reward.
ablation "rewards" {
  description = "GRASP without one of the terms of its reward"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "em")
  baseline    = { arm = "all" }

  set {
    policies = { main = policy.model }
    train    = dataset.train
    tools    = { semantic_search = tool.train_semantic, keyword_search = tool.train_keyword, read_paragraph = tool.train_read }
    agent {
      system = file(var.system_prompt)
    }
    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      tools    = { semantic_search = tool.hotpotqa_semantic, keyword_search = tool.hotpotqa_keyword, read_paragraph = tool.hotpotqa_read }
      sampling = { greedy = true }
    }
  }

  arm "all" {
    experiment = experiment.grasp
  }

  arm "without_read" {
    experiment = experiment.grasp
    reward {
      total = grasp.components["answer"] + 0.15 * grasp.components["search"] + 0.15 * grasp.components["efficiency"]
    }
  }

  arm "without_search" {
    experiment = experiment.grasp
    reward {
      total = grasp.components["answer"] + 0.70 * grasp.components["read"] + 0.15 * grasp.components["efficiency"]
    }
  }

  arm "without_efficiency" {
    experiment = experiment.grasp
    reward {
      total = grasp.components["answer"] + 0.70 * grasp.components["read"] + 0.15 * grasp.components["search"]
    }
  }

  arm "answer_only" {
    experiment = experiment.grasp
    reward {
      total = grasp.components["answer"]
    }
  }
}
