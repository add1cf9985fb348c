# GRASP in the embedded world, and what each of its tools is worth. The base is one of its own, which calls the three
# tools: see ../minihop/json.hcl and cold_json.hcl. Answers are one word, so their F1 is the exact match.

include {
  files = ["../minihop/json.hcl", "../papers/grasp/without.hcl"]
}

policy "json" {
  builtin = "minihop/json"
}

# Whole documents in the place of sentences.
index "paragraphs" {
  base = index.dense
  unit = "paragraph"
}

index "paragraph_words" {
  base = index.words
  unit = "paragraph"
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

set "paragraphs" {
  tools = { semantic_search = tool.semantic_paragraphs, keyword_search = tool.keyword_paragraphs }
}

experiment "grasp_small" {
  description = "GRASP in the embedded world"
  base        = experiment.small
  policies    = { main = policy.json }
  tools       = { semantic_search = tool.semantic_search, keyword_search = tool.keyword_search, read_paragraph = tool.read_paragraph }
  agent       = agent.minihop_json
  remove      = ["reward.source.outcome"]

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
    sets       = [set.without_semantic]
  }

  arm "without_keyword" {
    experiment = experiment.grasp_small
    sets       = [set.without_keyword]
  }

  arm "without_read" {
    experiment = experiment.grasp_small
    sets       = [set.paragraphs]
  }

  arm "answer_only" {
    experiment = experiment.grasp_small
    sets       = [set.answer_only]
  }
}
