# The agents that are compared without training, on the embedded world: its prompt and its tags in place of theirs.

include {
  files = ["../../../../experiments/minihop/world.hcl", "../../../../experiments/methods/prompting.hcl"]
}

dataset "few" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  limit   = 8
}

ablation "prompting" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "direct" }

  set {
    policies = { main = policy.habit }
    tools    = { search = tool.search }

    agent {
      chat_template = false
      user          = "<q> ${question.text} </q>"
      turn_tokens {
        first = 14
      }
    }
    evaluate "test" {
      dataset = dataset.few
    }
  }

  arm "direct" {
    experiment = experiment.direct
  }
  arm "rag" {
    experiment = experiment.rag
  }
  arm "ircot" {
    experiment = experiment.ircot
  }
}
