include {
  files = ["../methods/search_r1.hcl", "../methods/tree_grpo.hcl", "../methods/david_grpo.hcl"]
}

variable "data" {
  type        = string
  description = "folder with the datasets and the corpus"
}

corpus "wiki" {
  path = "${var.data}/corpus.jsonl"
}

encoder "e5" {
  path = "${var.data}/models/e5-base-v2"
}

index "dense" {
  corpus  = corpus.wiki
  encoder = encoder.e5
  unit    = "paragraph"
  hnsw {
    m               = 16
    ef_construction = 200
    ef_search       = 128
  }
}

dataset "train" {
  path  = "${var.data}/hotpot_train.jsonl"
  limit = 5276
}

dataset "dev" {
  path  = "${var.data}/hotpot_dev.jsonl"
  limit = 500
  seed  = 42
}

dataset "experts" {
  path = "${var.data}/warmup.jsonl"
}

dataset "test" {
  path = "${var.data}/test.jsonl"
}

tool "search" {
  retriever "dense" {
    index = index.dense
    k     = 3
  }
}

policy "qwen" {
  path  = "${var.data}/models/Qwen2.5-1.5B"
  dtype = "bfloat16"
}

ablation "low_budget" {
  description = "The methods as their papers run them, on one retriever and one policy"
  seeds       = [1, 2, 3, 4, 5]
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1" }

  set {
    policies = { main = policy.qwen }
    tools    = { search = tool.search }
    train    = dataset.train
    evaluate "dev" {
      dataset = dataset.dev
      every   = 20
    }
  }

  arm "search_r1" {
    experiment = experiment.search_r1
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo
  }

  arm "david_grpo" {
    experiment = experiment.david_grpo
  }

  arm "david_without_seeding" {
    experiment = experiment.david_grpo
    stages     = ["main"]
  }

  axis "group" {
    path   = stage.main.algorithm.group_size
    values = [3, 5, 8]
    arms   = ["search_r1"]
  }
}
