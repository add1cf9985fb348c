# The embedded world with GRASP's three tools: the documents' sentences are searched by meaning and by words, and a
# document is read as a whole by its title. Calls are JSON; their fixed parts are single tokens, and so are the tags.

index "sentences" {
  corpus  = corpus.world
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    ef_search = 420
  }
}

index "sentence_words" {
  corpus = corpus.world
  unit   = "sentence"
  bm25 {}
}

tool "semantic_search" {
  retriever "semantic_search" {
    index = index.sentences
    k     = 3
  }
}

tool "keyword_search" {
  retriever "keyword_search" {
    index = index.sentence_words
    k     = 3
  }
}

tool "read_paragraph" {
  retriever "read_paragraph" {
    corpus = corpus.world
  }
}

agent "minihop_json" {
  user = "<q> ${question.text} </q>"

  protocol "json" {
    observation = { open = "<tool_response> ", close = " </tool_response>" }
  }
  observation = "%{for hit in hits}%{if hit.sentence_id != ""}( ${hit.title} ) %{endif}${hit.text} %{endfor}"

  max_turns           = 9 # and one that answers
  on_budget           = "close"
  max_response_tokens = 340
  turn_tokens {
    first = 14
  }
}
