# Policies behind a service: one that is evaluated, and one that writes the answers from what another policy found.

include {
  files = ["../../../../experiments/minihop/world.hcl"]
}

variable "url" {
  type = string
}

policy "service" {
  endpoint {
    url         = var.url
    model       = "reader"
    key_env     = "FORAGE_TEST_ENDPOINT_KEY"
    concurrency = 3
    retries     = 2
  }
}

agent "searcher" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation  = "%{for hit in hits}${hit.text} %{endfor}"
  limit        = "limit"
  max_searches = 4
  on_budget    = "limit_text"
  turn_tokens {
    first = 14
  }
}

agent "reader" {
  chat_template = true
  system        = "Answer from the documents."
  user          = "%{for hit in hits}${hit.text}\n%{endfor}Question: ${question.text}"
  tools         = []

  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  turn_tokens {
    first = 100
  }
}

# As the built-in policies are asked, with what was found before they write.
agent "found" {
  user  = "<q> ${question.text} </q>%{for hit in hits} <information> ${hit.text} </information>%{endfor}"
  tools = []

  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  turn_tokens {
    first = 14
  }
}

dataset "few" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  limit   = 10
}

ablation "endpoint" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "service" }

  set {
    tools = { search = tool.search }
    agent = agent.searcher
  }

  arm "service" {
    experiment = experiment.service
  }
  arm "answered" {
    experiment = experiment.answered
  }
}

experiment "service" {
  policies = { main = policy.service }
  tools    = { search = tool.search }
  agent    = agent.searcher

  evaluate "test" {
    dataset  = dataset.few
    sampling = { temperature = 0.5 }
  }
}

experiment "answered" {
  policies = { main = policy.habit, writer = policy.habit }
  tools    = { search = tool.search }
  agent    = agent.searcher

  evaluate "test" {
    dataset = dataset.few
    answer_with {
      policy = policy.service
      agent  = agent.reader
    }
  }
  evaluate "own" {
    dataset = dataset.few
    answer_with {
      policy = "writer"
      agent  = agent.found
    }
  }
  evaluate "alone" {
    dataset = dataset.few
  }
}

# Not to be carried out.
experiment "trained" {
  policies = { main = policy.service }
  tools    = { search = tool.search }
  agent    = agent.searcher
  train    = dataset.train
  seeds    = [0]

  stage "main" {
    steps     = 1
    questions = 1
    algorithm "grpo" {}
    optimizer "adamw" {
      learning_rate = 1e-3
    }
  }
}
