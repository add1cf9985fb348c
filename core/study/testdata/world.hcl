# The embedded world as tests of whole studies use it: few questions to test on.

corpus "world" {
  builtin = "minihop"
  seed    = seed + 1
}

encoder "hashed" {
  kind = "hashed"
}

index "dense" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "document"
  hnsw {}
}

tool "search" {
  retriever "dense" {
    index = index.dense
    k     = 2
  }
}

dataset "train" {
  builtin = "minihop"
  split   = "train"
  seed    = seed + 1
}

dataset "test" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  limit   = 12
}

policy "habit" {
  builtin = "minihop/habit"
}

agent "minihop" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation         = "%{for hit in hits}${hit.text} %{endfor}"
  limit               = "limit"
  max_searches        = 4
  on_budget           = "limit_text"
  max_response_tokens = 156
  turn_tokens {
    first = 14
  }
}
