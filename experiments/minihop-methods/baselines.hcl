# The usual baselines on the embedded world, at one budget: 16 questions of 5 episodes, 40 steps, 2 optimizer steps
# each. They differ from each other in their algorithm alone, so they are arms over one experiment.

experiment "grpo_small" {
  description = "GRPO in the embedded world"
  policies    = { main = policy.habit }
  tools       = { search = tool.search }
  agent       = agent.minihop
  train       = dataset.train

  sampling {
    temperature = 1
  }
  optimizer "adamw" {
    learning_rate = 3e-4
  }
  reward {
    source "outcome" {
      reward "searchr1-format" {}
    }
    total = outcome.value
  }

  stage "main" {
    algorithm "grpo" {
      group_size = 5
      updates    = 2
    }
    steps     = var.steps
    questions = 16
  }

  evaluate "test" {
    dataset = dataset.test
    every   = 20
    sampling {
      greedy = true
    }
  }
}

# What the base answers without any training. "direct" may not search, "rag" gets what a search with the question
# finds, "agentic" searches as the trained agents do.
experiment "prompting_small" {
  description = "Prompting without training in the embedded world"
  policies    = { main = policy.habit }
  tools       = { search = tool.search }
  agent       = agent.minihop

  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}

ablation "baselines" {
  description = "Critic-free methods, learning from experts, and prompting without training"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "grpo" }

  set {
    evaluate "elsewhere" {
      dataset = dataset.elsewhere
      tools   = { search = tool.elsewhere }
      sampling {
        greedy = true
      }
    }
  }

  arm "grpo" {
    experiment = experiment.grpo_small
  }

  arm "rloo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "rloo" {
        group_size = 5
        updates    = 2
      }
    }
  }

  arm "reinforce_pp" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "reinforce-pp" {
        group_size = 5
        updates    = 2
      }
    }
  }

  arm "reinforce_pp_baseline" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "reinforce-pp" {
        group_size = 5
        baseline   = "group_mean"
        updates    = 2
      }
    }
  }

  arm "dr_grpo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "dr-grpo" {
        group_size        = 5
        length_normalizer = 84 # six turns of 14 tokens
        updates           = 2
      }
    }
  }

  arm "dapo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "dapo" {
        group_size = 5
        updates    = 2
        overlong {
          max_tokens = 84
          buffer     = 28
        }
      }
    }
  }

  arm "gspo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "gspo" {
        group_size = 5
        updates    = 2
      }
    }
  }

  # The scripted episodes are 100 questions of the training set.
  arm "offpolicy_mix" {
    experiment = experiment.grpo_small
    train      = dataset.experts
    stage "main" {
      experts = dataset.experts
      algorithm "offpolicy-mix" {
        group_size        = 5
        length_normalizer = 84
        updates           = 2
      }
    }
  }

  arm "preference" {
    experiment = experiment.grpo_small
    train      = dataset.experts
    stage "main" {
      experts = dataset.experts
      algorithm "preference" {
        pairs      = "expert"
        mini_batch = 40
      }
    }
  }

  # Nothing is sampled: 16 expert episodes per step in place of 80 of the policy's.
  arm "sft" {
    experiment = experiment.grpo_small
    train      = dataset.experts
    stage "main" {
      experts = dataset.experts
      algorithm "sft" {
        mini_batch = 8
      }
    }
  }

  arm "r1" {
    experiment = experiment.grpo_small
    agent {
      tools = []
    }
  }

  arm "agentic" {
    experiment = experiment.prompting_small
  }

  arm "direct" {
    experiment = experiment.prompting_small
    agent {
      tools = []
    }
  }

  arm "rag" {
    experiment = experiment.prompting_small
    agent {
      first_action = "search_question"
      max_searches = 1
      on_budget    = "stop"
    }
  }
}
