# What the papers' studies share: question files, the passages that are searched, the folder of language models, and the
# tests on questions of several hops (those of one hop are in single_hop.hcl). None of the files is in the repository;
# without them a study can still be validated and planned.
#
# A study that includes this file declares policy "model", says what its tests sample at,
#   locals { test_temperature = 0 } # greedy
# and names the tests in its ablations: sets = [set.several_hops].

variable "data" {
  type        = string
  description = "folder with a subfolder per dataset (hotpotqa, 2wikimultihopqa, musique, bamboogle, nq, triviaqa, popqa), each with files such as train.jsonl, dev.jsonl, test.jsonl as FlashRAG publishes them"
}

variable "wiki" {
  type        = string
  description = "the passages that are searched, one JSON object a line, as Search-R1 publishes those of Wikipedia 2018"
}

variable "models" {
  type        = string
  description = "folder with the language models, each a folder in the format of Hugging Face, named as there (Qwen2.5-3B, Qwen2.5-7B, ...)"
}

variable "seeds" {
  type        = list(number)
  default     = [1, 2, 3, 4, 5]
  description = "seeds of each study; the papers report one run"
}

variable "k" {
  type        = number
  default     = 3
  description = "passages that a search returns"
}

corpus "wiki" {
  path = var.wiki
}

# The papers search with an E5 encoder; models as encoders are not supported yet, so BM25 stands in its place. The same
# tool serves all arms.
index "wiki" {
  corpus = corpus.wiki
  unit   = "document"
  bm25 {}
}

tool "search" {
  retriever "bm25" {
    index = index.wiki
    k     = var.k
  }
}

dataset "hotpotqa_train" {
  path = "${var.data}/hotpotqa/train.jsonl"
}

dataset "hotpotqa" {
  path = "${var.data}/hotpotqa/dev.jsonl"
}

dataset "wiki2" {
  path = "${var.data}/2wikimultihopqa/dev.jsonl"
}

dataset "musique" {
  path = "${var.data}/musique/dev.jsonl"
}

dataset "bamboogle" {
  path = "${var.data}/bamboogle/test.jsonl"
}

locals {
  several_hops = ["hotpotqa", "wiki2", "musique", "bamboogle"]
}

# The tests search with the same tool, whatever an arm was trained with.
set "several_hops" {
  evaluate "hotpotqa" {
    dataset  = dataset.hotpotqa
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
  evaluate "wiki2" {
    dataset  = dataset.wiki2
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
  evaluate "musique" {
    dataset  = dataset.musique
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
  evaluate "bamboogle" {
    dataset  = dataset.bamboogle
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
}
