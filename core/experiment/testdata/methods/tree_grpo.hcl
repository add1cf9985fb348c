agent "tree" {
  chat_template = true
  user          = "Question: ${question.text}\n"
  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation = "%{for hit in hits}${hit.title}: ${hit.text}\n%{endfor}"
  max_turns   = 3
}

experiment "tree_grpo" {
  agent = agent.tree
  reward {
    source "outcome" {
      reward "exact-match" {}
    }
    total = outcome.value
  }
  optimizer "adamw" {
    learning_rate = 1e-6
  }
  stage "main" {
    algorithm "tree-grpo" {
      trees = 2
    }
    steps     = 200
    questions = 32
  }
  evaluate "test" {
    dataset = dataset.test
  }
}
