agent "search_r1" {
  chat_template = true
  user          = <<-EOT
    Think between <think> and </think>, search between <search> and </search>, answer between <answer> and </answer>.
    Question: ${question.text}
  EOT
  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "\n\n<information>", close = "</information>\n\n" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation            = "%{for i, hit in hits}Doc ${i + 1}(Title: ${hit.title}) ${hit.text}\n%{endfor}"
  invalid                = "\nMy previous action is invalid. I should search between <search> and </search> or answer between <answer> and </answer>.\n"
  max_turns              = 4
  on_budget              = "close"
  max_observation_tokens = 500
  max_prompt_tokens      = 4096
  turn_tokens {
    first = 500
  }
}

experiment "search_r1" {
  agent = agent.search_r1

  reward {
    source "outcome" {
      reward "search-r1" {
        version = "v0.3"
      }
    }
  }

  optimizer "adamw" {
    learning_rate = 1e-6
  }

  stage "main" {
    schedule "constant" {
      warmup_steps = 86
      from_zero    = true
    }
    algorithm "grpo" {
      group_size = 5
      kl         = 1e-3
    }
    steps     = 304
    questions = 512
  }

  evaluate "test" {
    dataset = dataset.test
  }
}
