# David-GRPO: a seeding stage on a few expert episodes, then GRPO with rewards for evidence and continuation of
# promising prefixes. Semantics of the corrected release.
# The prompt is not the paper's: it is worded anew from what the paper's prompt says.
# The paper also trains on questions made out of the corpus's links: `forage generate` writes them to a file, which a study
# gives as train = dataset.x with dataset "x" { path = "…" }.

agent "david" {
  chat_template = true
  user          = file("prompts/david.txt")

  protocol "tags" {
    think          = { open = "<think>", close = "</think>" }
    call           = { open = "<begin_search>", close = "</end_search>" }
    observation    = { open = "\n\n<search_result> ", close = " </search_result>\n\n\n\n" }
    answer         = { open = "\\boxed{", close = "}" }
    stop_at_answer = false
    calls_in_think = true
  }
  observation = "%{for i, hit in hits}result ${i + 1}: \"${hit.title}\"\n${hit.text}\n%{endfor}"
  limit       = "\n\n<search_result> The search budget is used up. </search_result>\n\n"

  max_searches        = 10
  on_budget           = "limit_text"
  max_prompt_tokens   = 1024
  max_response_tokens = 8192
  turn_tokens {
    first = 2048
    next  = 1024
    last  = 2048
  }
}

experiment "david_grpo" {
  description = "David-GRPO: expert seeding, evidence coverage, prefix continuation"
  agent       = agent.david
  stages      = ["seed", "main"]

  sampling {
    temperature = 0.6
  }

  reward {
    source "gates" {
      reward "david-gates" {}
    }
    source "coverage" {
      reward "evidence-coverage" {}
    }
    source "outcome" {
      reward "david-outcome" {}
    }
    total = gates.value * (0.5 * coverage.value + 0.5 * outcome.value)
  }

  stage "seed" {
    agent {
      max_searches = 5
    }
    optimizer "adamw" {
      learning_rate = 1e-5
    }
    schedule "constant" {
      from_zero = true
    }
    algorithm "david-grpo" {
      phase      = "seed"
      group_size = 5
    }
    steps     = 49
    questions = 4
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      from_zero = true
    }
    algorithm "david-grpo" {
      phase      = "main"
      group_size = 5
    }
    steps     = 214
    questions = 24
  }

  guard "collapse" {
    when   = metrics["episode/searches"] < 0.2 && step > 60
    action = "warn"
  }
}
