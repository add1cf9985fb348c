# FrugalRAG's tables: exploring, learning to stop, and what is left when one of the two is taken away.

include {
  files = ["../world.hcl", "../../methods/frugalrag.hcl", "../../methods/prompting.hcl"]
}

variable "train_questions" {
  type        = number
  default     = 1000
  description = "the paper trains on 1,000 questions"
}

variable "answerer" {
  type        = string
  default     = "Qwen2.5-7B-Instruct"
  description = "the model that answers from what was found, a folder in models"
}

dataset "train" {
  base  = dataset.hotpotqa_train
  limit = var.train_questions
  seed  = 663
}

# What an episode has seen is left out of later searches.
tool "unseen" {
  base = tool.search
  retriever "bm25" {
    k            = 5
    exclude_seen = true
  }
}

locals {
  metrics = ["em", "f1", "evidence_recall", "evidence_all", "searches", "unnecessary_searches", "policy_tokens"]
}

policy "model" {
  path        = "${var.models}/Qwen2.5-7B-Instruct"
  max_context = 8192
}

policy "answerer" {
  base   = policy.model
  path   = "${var.models}/${var.answerer}"
  frozen = true
}

agent "answer" {
  base              = agent.direct
  user              = file("answer.txt")
  max_prompt_tokens = 8000
  turn_tokens { first = 100 }
}

set "study" {
  policies = { main = policy.model }
  tools    = { search = tool.unseen }
  train    = dataset.train

  evaluate "hotpotqa" {
    dataset  = dataset.hotpotqa
    sampling = { greedy = true }
    metrics  = local.metrics
  }
}

ablation "main" {
  description = "Retrieval once, exploring to the end, and FrugalRAG, three models"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique"], "evidence_recall")
  baseline    = { arm = "explore", model = "${var.models}/Qwen2.5-7B-Instruct" }
  sets        = [set.study]

  set {
    policies = { main = policy.model, answerer = policy.answerer }

    evaluate "hotpotqa" {
      answer_with = { policy = "answerer", agent = agent.answer }
    }
    evaluate "wiki2" {
      dataset     = dataset.wiki2
      sampling    = { greedy = true }
      metrics     = local.metrics
      answer_with = { policy = "answerer", agent = agent.answer }
    }
    evaluate "musique" {
      dataset     = dataset.musique
      sampling    = { greedy = true }
      metrics     = local.metrics
      answer_with = { policy = "answerer", agent = agent.answer }
    }
  }

  # The policy as it is, asked to search and to finish when it has enough.
  arm "react" {
    experiment = experiment.frugalrag
    stages     = []
  }

  # Stage 1 alone, without a tool to finish.
  arm "explore" {
    experiment = experiment.frugalrag
    stages     = ["explore", "tune"]
    agent      = agent.frugalrag_search
  }

  # Stage 1 alone, free to finish.
  arm "sft_with_finish" {
    experiment = experiment.frugalrag
    stages     = ["explore", "tune"]
  }

  arm "frugalrag" {
    experiment = experiment.frugalrag
  }

  axis "model" {
    path   = policies.main.path
    values = ["${var.models}/Qwen2.5-7B-Instruct", "${var.models}/Qwen2.5-3B-Instruct", "${var.models}/Llama-3.1-8B-Instruct"]
  }
}

ablation "parts" {
  description = "FrugalRAG without stage 1, without a price for late stops, and on twice as many hops"
  seeds       = var.seeds
  primary     = metric("hotpotqa", "evidence_recall")
  baseline    = { arm = "whole" }
  sets        = [set.study]

  arm "whole" {
    experiment = experiment.frugalrag
  }

  arm "without_stage_1" {
    experiment = experiment.frugalrag
    sets       = [set.without_stage_1]
  }

  arm "without_late_penalty" {
    experiment = experiment.frugalrag
    sets       = [set.without_late_penalty]
  }

  arm "finish_only" {
    experiment = experiment.frugalrag
    sets       = [set.finish_only]
  }
}
