# The method of David-GRPO: expert seeding, then reinforcement learning with coverage credit.
agent "david" {
  chat_template = true
  user          = file("prompts/david.txt") # a template: ${question.text}
  protocol "tags" {
    call           = { open = "<begin_search>", close = "</end_search>" }
    observation    = { open = "<search_result>", close = "</search_result>" }
    answer         = { open = "\\boxed{", close = "}" }
    think          = { open = "<think>", close = "</think>" }
    stop_at_answer = false
    calls_in_think = true
  }
  observation  = "%{for i, hit in hits}result ${i + 1}: ${hit.text}\n%{endfor}"
  limit        = "The search budget is used up."
  max_searches = 10
  on_budget    = "limit_text" # close (one more turn without tools) | stop | limit_text
  turn_tokens {
    first = 2048
    next  = 1024
    last  = 2048
  }
}

experiment "david_grpo" {
  agent  = agent.david
  stages = ["seed", "main"]

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
    train   = dataset.experts
    experts = dataset.experts
    agent {
      max_searches = 5 # merged over the experiment's agent
    }
    optimizer "adamw" {
      learning_rate = 1e-5
    }
    algorithm "david-grpo" {
      phase = "seed"
    }
    steps     = 50
    questions = 4
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    algorithm "david-grpo" {
      group_size = 5
    }
    steps     = 215
    questions = 24
  }

  guard "collapse" {
    when   = metrics["episode/searches"] < 0.2 && step > 20
    action = "warn" # warn | checkpoint | stop
  }

  evaluate "test" {
    dataset  = dataset.test
    sampling = { temperature = 0.6 }
  }
}
