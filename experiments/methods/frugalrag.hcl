# FrugalRAG (arXiv:2507.07634): exploring with several prompts, supervised learning of the best hops, then reinforcement
# learning of when to stop. The numbers are those of the paper and its released code.
#
# A study gives train (1,000 questions), policies = { main = … } and tools = { search = … }, whose retriever should have
# exclude_seen = true and k = 5 (3 for ColBERT on HotpotQA), as the method leaves out what an episode has seen. For
# MuSiQue and 2WikiMultiHopQA set support on the reward, and recall_component = "coverage" on the explore stage.
# The prompts are not the paper's: they are worded anew. The release has seven with demonstrations found by
# bootstrapping, and a plain one; here four instructions are tried twice each.

# What the policy is trained and evaluated with. As released, its instructions do not speak of finishing: that there is
# such a tool stands only where the tools' names are listed.
agent "frugalrag" {
  chat_template = true
  system        = file("prompts/frugalrag.txt")
  user          = file("prompts/frugalrag_user.txt")

  protocol "fields" {}
  observation = "%{for i, hit in hits}[${i + 1}] ${hit.title} | ${hit.text}\n%{endfor}"
  invalid     = "Failed to execute."

  first_action = "search_question"
  max_turns    = 5
  on_budget    = "stop"
  turn_tokens {
    first = 256
  }
}

# The same without a tool to finish, for what it finds when it goes on to the end.
agent "frugalrag_search" {
  base = agent.frugalrag
  user = file("prompts/frugalrag_user_search.txt")
  protocol "fields" {
    finish_tool = ""
  }
}

# The prompts that are tried on every hop of an explored question, with and without a tool to finish.
agent "explore" {
  base = agent.frugalrag
  turn_tokens {
    first = 1000
  }
}

agent "explore_search" {
  base = agent.frugalrag_search
  turn_tokens {
    first = 1000
  }
}

agent "explore_steps" {
  base   = agent.explore
  system = file("prompts/frugalrag_steps.txt")
}

agent "explore_steps_search" {
  base   = agent.explore_search
  system = file("prompts/frugalrag_steps.txt")
}

agent "explore_doubt" {
  base   = agent.explore
  system = file("prompts/frugalrag_doubt.txt")
}

agent "explore_doubt_search" {
  base   = agent.explore_search
  system = file("prompts/frugalrag_doubt.txt")
}

agent "explore_names" {
  base   = agent.explore
  system = file("prompts/frugalrag_names.txt")
}

agent "explore_names_search" {
  base   = agent.explore_search
  system = file("prompts/frugalrag_names.txt")
}

experiment "frugalrag" {
  description = "FrugalRAG: explore, learn the best hops, learn to stop"
  agent       = agent.frugalrag
  agents = {
    plain        = agent.explore
    steps        = agent.explore_steps
    doubt        = agent.explore_doubt
    names        = agent.explore_names
    plain_search = agent.explore_search
    steps_search = agent.explore_steps_search
    doubt_search = agent.explore_doubt_search
    names_search = agent.explore_names_search
  }
  stages = ["explore", "tune", "tau", "stop"]

  reward {
    source "efficiency" {
      reward "frugalrag" {}
    }
    total = efficiency.value
  }

  # Stage 1 of the paper: data ...
  stage "explore" {
    produce = "hops"
    sampling {
      temperature = 0.7
    }
    algorithm "frugalrag" {
      phase            = "explore"
      agents           = ["plain", "steps", "doubt", "names"]
      agents_no_finish = ["plain_search", "steps_search", "doubt_search", "names_search"]
      candidates       = 2
      recall_source    = "efficiency"
    }
    steps     = 125 # 1,000 questions, once
    questions = 8
  }

  # ... and supervised learning on it, under the policy's own prompt.
  stage "tune" {
    train   = artefact.hops
    experts = artefact.hops
    optimizer "adamw" {
      learning_rate = 2e-5
      weight_decay  = 0.01
    }
    schedule "linear" {
      warmup_steps = 20
      from_zero    = true
      after_warmup = true
    }
    algorithm "sft" {
      missing_expert = "skip" # a question on which every candidate failed
    }
    steps     = 500 # one pass; about 10 hops in each, the paper's 8
    questions = 2
  }

  # What the tuned policy finds on each question when it cannot finish.
  stage "tau" {
    produce = "tau"
    agent   = agent.frugalrag_search
    sampling {
      greedy = true
    }
    algorithm "frugalrag" {
      phase         = "tau"
      recall_source = "efficiency"
    }
    steps     = 125
    questions = 8
  }

  # Stage 2 of the paper.
  stage "stop" {
    annotations = artefact.tau
    sampling {
      temperature = 0.9
    }
    optimizer "adamw" {
      learning_rate = 1e-6
      betas         = [0.9, 0.99]
      weight_decay  = 0
      clip_norm     = 1
    }
    schedule "cosine" {
      warmup_steps = 20
      from_zero    = true
      after_warmup = true
    }
    algorithm "frugalrag" {
      phase = "stop"
    }
    steps     = 400
    questions = 7 # of 8 episodes each
  }
}
