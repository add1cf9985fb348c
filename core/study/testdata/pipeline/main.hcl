# Episodes of a teacher and a table are produced, main and a student copy the episodes, then main is trained with the
# table as annotations of its questions.

include {
  files = ["../world.hcl"]
}

variable "wrong" {
  type        = string
  default     = "nothing"
  description = "what the algorithm of the first stage does wrong"
}

dataset "copied" {
  artefact = artefact.episodes
  order    = "given"
}

dataset "part" {
  concat = [dataset.copied]
  limit  = 6
  seed   = 1
}

policy "never" {
  builtin = "minihop/never"
}

policy "teacher" {
  builtin = "minihop/habit"
  frozen  = true
}

agent "brief" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation         = "%{for hit in hits}${hit.text} %{endfor}"
  limit               = "limit"
  max_searches        = 3
  on_budget           = "limit_text"
  max_response_tokens = 156
  turn_tokens {
    first = 14
  }
}

agent "hasty" {
  user = "<q> ${question.text} </q>"

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information> ", close = " </information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation         = "%{for hit in hits}${hit.text} %{endfor}"
  limit               = "limit"
  max_searches        = 1
  on_budget           = "limit_text"
  max_response_tokens = 156
}

experiment "pipeline" {
  seeds    = [0]
  policies = { main = policy.never, student = policy.never, teacher = policy.teacher }
  tools    = { search = tool.search }
  agents   = { hasty = agent.hasty }
  train    = dataset.train
  agent    = agent.minihop
  stages   = ["explore", "imitate", "tutor", "reinforce"]

  optimizer "adamw" {
    learning_rate = 3e-4
  }
  reward {
    source "outcome" {
      reward "f1" {}
    }
  }

  stage "explore" {
    algorithm "pipeline/explore" {
      agents = [agent.minihop, agent.brief]
      judge  = policy.teacher
      wrong  = var.wrong
    }
    produce   = var.wrong == "train" ? null : ["episodes", "tau"]
    steps     = 4
    questions = 3
  }

  stage "imitate" {
    train   = dataset.copied
    experts = artefact.episodes
    algorithm "sft" {
      missing_expert = "skip"
    }
    steps     = 3
    questions = 4
  }

  stage "tutor" {
    policy  = "student"
    train   = dataset.part
    experts = artefact.episodes
    algorithm "sft" {
      missing_expert = "skip"
    }
    steps     = 2
    questions = 4
  }

  stage "reinforce" {
    train       = artefact.tau
    annotations = [artefact.tau]
    reward {
      source "outcome" {
        reward "pipeline/annotated" {}
      }
    }
    algorithm "search-r1" {
      group_size = 3
    }
    steps     = 2
    questions = 3
  }

  checkpoint {
    every = 1
  }
  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
  evaluate "student" {
    dataset = dataset.test
    policy  = "student"
    sampling {
      greedy = true
    }
  }
  evaluate "teacher" {
    dataset = dataset.test
    policy  = "teacher"
    sampling {
      greedy = true
    }
  }
}
