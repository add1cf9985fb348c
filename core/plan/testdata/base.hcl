corpus "wiki" {
  path = "corpus.jsonl"
}

encoder "hashed" {
  kind = "hashed"
}

index "dense" {
  corpus  = corpus.wiki
  encoder = encoder.hashed
}

index "words" {
  corpus = corpus.wiki
  bm25 {}
}

dataset "train" {
  path = "train.jsonl"
}

dataset "test" {
  path = "test.jsonl"
}

dataset "dev" {
  path = "dev.jsonl"
}

tool "search" {
  retriever "dense" {
    index = index.dense
  }
}

policy "small" {
  path = "model"
}

policy "big" {
  path = "bigger"
}

agent "plain" {
  user = "Question: ${question.text}"
  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation = "%{for hit in hits}${hit.text}\n%{endfor}"
  max_turns   = 4
}

experiment "base" {
  policies = { main = policy.small }
  tools    = { search = tool.search }
  agent    = agent.plain
  train    = dataset.train
  optimizer "adamw" {
    learning_rate = 1e-6
  }
  reward {
    source "outcome" {
      reward "exact-match" {}
    }
  }
  stage "main" {
    algorithm "grpo" {}
    steps     = 100
    questions = 16
  }
  evaluate "test" {
    dataset = dataset.test
  }
}
