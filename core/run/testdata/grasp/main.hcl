# GRASP's agent, tools and reward over the sentences of HotpotQA's questions.

include {
  files = ["../../../../experiments/methods/grasp.hcl"]
}

variable "data" {
  type        = string
  description = "a file of HotpotQA questions with their paragraphs"
}

corpus "paragraphs" {
  path = var.data
}

encoder "hashed" {
  kind       = "hashed"
  dimensions = 128
}

index "sentences" {
  corpus  = corpus.paragraphs
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    ef_construction = 100
  }
}

index "sentence_words" {
  corpus = corpus.paragraphs
  unit   = "sentence"
  bm25 {}
}

tool "semantic_search" {
  retriever "semantic_search" {
    index = index.sentences
  }
}

tool "keyword_search" {
  retriever "keyword_search" {
    index = index.sentence_words
  }
}

tool "read_paragraph" {
  retriever "read_paragraph" {
    corpus = corpus.paragraphs
  }
}

dataset "questions" {
  path       = var.data
  limit      = 60
  gold_match = "title"
}

policy "none" {
  builtin = "minihop/habit"
}

ablation "grasp" {
  arm "grasp" {
    experiment = experiment.grasp
    policies   = { main = policy.none }
    tools      = { semantic_search = tool.semantic_search, keyword_search = tool.keyword_search, read_paragraph = tool.read_paragraph }
    train      = dataset.questions
    stages     = ["main"]
    agent { # the test's tokens are characters
      max_prompt_tokens   = 8192
      max_response_tokens = 60000
      turn_tokens {
        first = 4096
      }
    }
  }
  seeds    = [0]
  baseline = { arm = "grasp" }
}
