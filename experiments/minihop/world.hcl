# The embedded world: a generated corpus of 156 linked documents and questions of two and three hops over it. Seed s of
# the study plays in world s + 1.

corpus "world" {
  builtin = "minihop"
  seed    = seed + 1
}

encoder "hashed" {
  kind       = "hashed"
  dimensions = 128
}

index "dense" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "document"
  hnsw {
    ef_search = 156
  }
}

index "words" {
  corpus = corpus.world
  unit   = "document"
  bm25 {}
}

tool "search" {
  retriever "dense" {
    index = index.dense
    k     = 2
  }
}

tool "bm25" {
  retriever "bm25" {
    index = index.words
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
}

# The same kind of questions about other facts: who has learnt to read answers them too, who has learnt the facts by
# heart does not.
corpus "elsewhere" {
  builtin = "minihop"
  seed    = seed + 1001
}

index "elsewhere" {
  base   = index.dense
  corpus = corpus.elsewhere
}

tool "elsewhere" {
  base = tool.search
  retriever "dense" {
    index = index.elsewhere
  }
}

dataset "elsewhere" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1001
}

# For studies whose arms are all asked about the other world as well.
set "elsewhere" {
  evaluate "elsewhere" {
    dataset = dataset.elsewhere
    tools   = { search = tool.elsewhere }
    sampling {
      greedy = true
    }
  }
}

dataset "experts" {
  builtin = "minihop"
  split   = "experts"
  seed    = seed + 1
  order   = "given" # two questions of two hops, two of three, and so on
}

# Bases that were pre-trained to read and search but mostly do not: see cold.hcl.
policy "habit" {
  builtin = "minihop/habit"
}

policy "never" {
  builtin = "minihop/never"
}

agent "minihop" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation = "%{for hit in hits}${hit.text} %{endfor}"
  limit       = "limit"

  max_searches        = 4
  on_budget           = "limit_text"
  max_response_tokens = 156
  turn_tokens {
    first = 14
  }
}
