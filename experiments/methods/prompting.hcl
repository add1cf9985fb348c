# Prompting without training: what the agents of the trained methods are compared with. These experiments have agents
# and no stages; a study gives them a policy, a tool and what to evaluate on.
# The prompts are not the papers': they are worded anew from what the papers' prompts say.

# The policy answers from what it knows.
agent "direct" {
  chat_template = true
  user          = file("prompts/direct.txt")
  tools         = []

  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "\n\n<information>", close = "</information>\n\n" }
    answer      = { open = "<answer>", close = "</answer>" }
  }

  max_prompt_tokens = 2048
  turn_tokens {
    first = 500
  }
}

experiment "direct" {
  description = "Direct answer: no search, no reasoning asked for"
  agent       = agent.direct

  sampling {
    temperature = 1
  }
}

# The policy thinks, then answers. The agent of the method "R1", too: see baselines.hcl.
agent "think" {
  base = agent.direct
  user = file("prompts/think.txt")
}

experiment "think" {
  description = "Chain of thought: no search"
  base        = experiment.direct
  agent       = agent.think
}

# One retrieval with the question, then the answer.
agent "rag" {
  base        = agent.direct
  user        = file("prompts/rag.txt")
  tools       = null
  observation = "%{for i, hit in hits}Doc ${i + 1}(Title: \"${hit.title}\") ${hit.text}\n%{endfor}"

  first_action           = "search_question"
  max_searches           = 1
  on_budget              = "stop"
  max_observation_tokens = 1500
}

experiment "rag" {
  description = "Retrieval once, with the question as the query"
  base        = experiment.direct
  agent       = agent.rag
}

# IRCoT (Trivedi et al., arXiv:2212.10509) in one growing dialogue: retrieval with the question, then each sentence of
# the reasoning is the next query. The paper gathers all paragraphs in a prompt that is rendered anew, shows worked
# examples, and lets a separate reader answer.
agent "ircot" {
  base = agent.rag
  user = file("prompts/ircot.txt")

  protocol "tags" {
    think = { open = "<thought>", close = "</thought>" } # the sentence between the think tags is the query
    call  = { open = "<think>", close = "</think>" }
  }

  max_searches           = 8
  on_budget              = "close"
  max_observation_tokens = 500
  turn_tokens {
    first = 100
  }
}

experiment "ircot" {
  description = "IRCoT: each sentence of the reasoning is the next query"
  base        = experiment.direct
  agent       = agent.ircot
}

# Search-o1 (Li et al., arXiv:2501.05366): a reasoning model that searches within its thoughts. Its second part, which
# lets the model condense the documents of each search in a call of its own, is not supported: documents are read as
# they are found.
agent "search_o1" {
  chat_template = true
  user          = file("prompts/search_o1.txt")

  protocol "tags" {
    call           = { open = "<|begin_search_query|>", close = "<|end_search_query|>" }
    observation    = { open = "\n\n<|begin_search_result|>", close = "<|end_search_result|>\n\n" }
    answer         = { open = "\\boxed{", close = "}" }
    stop_at_answer = false
  }
  observation = "%{for i, hit in hits}Doc ${i + 1}(Title: \"${hit.title}\") ${hit.text}\n%{endfor}"
  limit       = "The searches are used up: answer with what you know."

  max_searches           = 10
  on_budget              = "limit_text"
  max_prompt_tokens      = 2048
  max_observation_tokens = 1000
  max_response_tokens    = 32768
  turn_tokens {
    first = 4096
  }
}

experiment "search_o1" {
  description = "Search-o1: search within reasoning, without its step that condenses documents"
  agent       = agent.search_o1

  sampling {
    temperature = 0.7
    top_p       = 0.8
    top_k       = 20
  }
}
