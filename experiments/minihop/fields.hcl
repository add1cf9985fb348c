# The protocol of FrugalRAG in the embedded world: every turn answers a prompt of its own, and what was found is left out
# of later results.

tool "unseen" {
  retriever "dense" {
    index        = index.dense
    k            = 2
    exclude_seen = true
  }
}

# Which tools there are, and whether the question is said again, is the example's own in a stream of scripted episodes.
agent "minihop_fields" {
  user = "[[ ## question ## ]] ${question.text} %{for turn in turns}[[ ## thought ## ]] ${turn.thought} [[ ## query ## ]] ${turn.number == 1 ? "" : turn.query} [[ ## observation ## ]] ${turn.observation} %{endfor}%{if lookup(question.metadata, "remind", false)}[[ ## question ## ]] ${question.text} %{endif}[[ ## tools ## ]] ${lookup(question.metadata, "tools", "search finish")} "

  protocol "fields" {
    inline = true # its tokenizer knows words, and no lines
  }
  observation = "%{for hit in hits}${hit.text} %{endfor}"
  invalid     = "invalid"

  first_action = "search_question"
  max_turns    = 5
  on_budget    = "stop"
  turn_tokens {
    first = 14
  }
}

# The same without a tool to finish.
agent "minihop_fields_search" {
  base = agent.minihop_fields
  user = "[[ ## question ## ]] ${question.text} %{for turn in turns}[[ ## thought ## ]] ${turn.thought} [[ ## query ## ]] ${turn.number == 1 ? "" : turn.query} [[ ## observation ## ]] ${turn.observation} %{endfor}[[ ## tools ## ]] search "
  protocol "fields" {
    finish_tool = ""
  }
}
