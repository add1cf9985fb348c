# The same comparison on real questions and a real language model. Data and checkpoint are yours: give their folders.
#
#   forage run experiments/hotpotqa -var data=DIR -var model=DIR

include {
  files = ["../methods/search_r1.hcl", "../methods/david_grpo.hcl"]
}

variable "data" {
  type        = string
  description = "folder that holds the question files"
}

variable "model" {
  type        = string
  description = "folder of the language model, in the format of Hugging Face"
}

variable "train_file" {
  type        = string
  default     = "hotpotqa_train_distractor.jsonl"
  description = "training questions, a file in data"
}

variable "test_file" {
  type        = string
  default     = "hotpotqa_dev_distractor.jsonl"
  description = "test questions, a file in data"
}

variable "experts_file" {
  type        = string
  default     = "david_grpo_hotpot_warmup.jsonl"
  description = "questions with expert episodes, a file in data"
}

variable "test_questions" {
  type        = number
  default     = 500
  description = "how many test questions are asked"
}

variable "seed_steps" {
  type        = number
  default     = 49
  description = "steps of David-GRPO's seeding stage"
}

variable "seed_questions" {
  type        = number
  default     = 4
  description = "questions with an expert per step of the seeding stage"
}

variable "steps" {
  type        = number
  default     = 200
  description = "training steps of the main stage"
}

variable "questions" {
  type        = number
  default     = 24
  description = "questions per training step"
}

variable "group_size" {
  type        = number
  default     = 5
  description = "episodes per question"
}

variable "turn_tokens" {
  type        = number
  default     = 500
  description = "most tokens that the policy writes in a turn"
}

variable "seeds" {
  type        = list(number)
  default     = [1, 2, 3, 4, 5]
  description = "seeds of the study"
}

# What is searched: the passages that come with the questions, of training and test together.
corpus "contexts" {
  path = ["${var.data}/${var.train_file}", "${var.data}/${var.test_file}"]
}

index "words" {
  corpus = corpus.contexts
  unit   = "document"
  bm25 {}
}

encoder "hashed" {
  kind       = "hashed"
  dimensions = 1024
}

index "dense" {
  corpus  = corpus.contexts
  encoder = encoder.hashed
  unit    = "document"
  hnsw {}
}

tool "search" {
  retriever "hybrid" {
    dense  = index.dense
    sparse = index.words
    k      = 3
  }
}

dataset "train" {
  path = "${var.data}/${var.train_file}"
}

dataset "test" {
  path  = "${var.data}/${var.test_file}"
  limit = var.test_questions
  seed  = 42
}

# The experts searched all of Wikipedia: their golds are not in this corpus. Nothing is computed from them for the
# experts, whose reward is set, but what the policy itself tries on these questions earns nothing for evidence. With a
# corpus of all of Wikipedia remove max_unresolved.
dataset "experts" {
  path           = "${var.data}/${var.experts_file}"
  order          = "given"
  max_unresolved = 1
}

policy "model" {
  path        = var.model
  max_context = 4096
}

ablation "small" {
  description = "Search-R1 and David-GRPO on HotpotQA with a small language model"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train

    agent {
      turn_tokens {
        first = var.turn_tokens
        next  = var.turn_tokens
        last  = var.turn_tokens
      }
    }
    evaluate "test" {
      dataset = dataset.test
      sampling {
        greedy = true
      }
    }
    stage "main" {
      steps     = var.steps
      questions = var.questions
    }
  }

  arm "search_r1" {
    experiment = experiment.search_r1
    stage "main" {
      schedule "constant" {}
      algorithm "search-r1" {
        group_size = var.group_size
      }
    }
  }

  arm "david_grpo" {
    experiment = experiment.david_grpo
    stage "seed" {
      train     = dataset.experts
      experts   = dataset.experts
      steps     = var.seed_steps
      questions = var.seed_questions
      algorithm "david-grpo" {
        group_size = var.group_size
      }
    }
    stage "main" {
      algorithm "david-grpo" {
        group_size = var.group_size
      }
    }
  }
}
