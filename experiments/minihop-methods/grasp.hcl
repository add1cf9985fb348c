# GRASP in the embedded world, and what each of its tools is worth. The base is one of its own, which calls the three
# tools: see ../minihop/json.hcl and cold_json.hcl. Answers are one word, so their F1 is the exact match.

include {
  files = ["../minihop/json.hcl"]
}

policy "json" {
  builtin = "minihop/json"
}

# Whole documents in the place of sentences.

index "paragraphs" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "paragraph"
  hnsw {
    ef_search = 156
  }
}

index "paragraph_words" {
  corpus = corpus.world
  unit   = "paragraph"
  bm25 {}
}

tool "semantic_paragraphs" {
  retriever "semantic_search" {
    index = index.paragraphs
    k     = 2
    level = "paragraph"
  }
}

tool "keyword_paragraphs" {
  retriever "keyword_search" {
    index = index.paragraph_words
    k     = 2
    level = "paragraph"
  }
}

experiment "grasp_small" {
  description = "GRASP in the embedded world"
  policies    = { main = policy.json }
  tools       = { semantic_search = tool.semantic_search, keyword_search = tool.keyword_search, read_paragraph = tool.read_paragraph }
  agent       = agent.minihop_json
  train       = dataset.train
  stages      = ["main"]

  sampling {
    temperature = 1
  }
  optimizer "adamw" {
    learning_rate = 3e-4
  }

  reward {
    source "grasp" {
      reward "grasp" {}
    }
    total = grasp.value
  }

  stage "main" {
    algorithm "grpo" {
      group_size = 5
      updates    = 2
      kl {
        coefficient = 0.001
      }
    }
    steps     = var.steps
    questions = 16
  }

  evaluate "test" {
    dataset = dataset.test
    every   = 20
    sampling {
      greedy = true
    }
  }
}

ablation "grasp" {
  description = "GRASP in the embedded world, without one of its tools or of the terms of its reward"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "grasp" }

  arm "grasp" {
    experiment = experiment.grasp_small
  }

  arm "without_semantic" {
    experiment = experiment.grasp_small
    agent {
      tools = ["keyword_search", "read_paragraph"]
    }
  }

  arm "without_keyword" {
    experiment = experiment.grasp_small
    agent {
      tools = ["semantic_search", "read_paragraph"]
    }
  }

  arm "without_read" {
    experiment = experiment.grasp_small
    tools      = { semantic_search = tool.semantic_paragraphs, keyword_search = tool.keyword_paragraphs }
  }

  arm "answer_only" {
    experiment = experiment.grasp_small
    reward {
      total = grasp.components["answer"]
    }
  }
}
