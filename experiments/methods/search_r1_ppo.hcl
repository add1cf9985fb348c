# Search-R1 (Jin et al., arXiv:2503.09516 and 2505.15117) with PPO, as its scripts run it: a critic that starts as the
# policy, advantages per token (gamma = lambda = 1) over the whole response, the divergence from the starting policy in
# the reward, one episode per question.
# The prompt is not the paper's: it is worded anew from what the paper's prompt says.

include {
  files = ["search_r1.hcl"] # its agent
}

experiment "search_r1_ppo" {
  description = "Search-R1 with PPO, v0.2: reward for the answer alone"
  agent       = agent.search_r1
  stages      = ["main"]

  sampling {
    temperature = 1
  }

  reward {
    source "outcome" {
      reward "em" {}
    }
    total = outcome.value
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      warmup_steps = 286 # 0.285 of 1,005 steps
      from_zero    = true
    }
    critic {
      optimizer "adamw" {
        learning_rate = 1e-5
      }
      schedule "constant" {
        warmup_steps = 15 # 0.015 of 1,005 steps
        from_zero    = true
      }
    }
    algorithm "search-r1" {
      estimator  = "gae"
      group_size = 1
      mini_batch = 256
    }
    steps     = 1004
    questions = 512
  }
}

# The paper's ablation: what the search engine returned is not masked out of the policy's loss.
experiment "search_r1_ppo_unmasked" {
  description = "Search-R1 with PPO, v0.2, trained on documents too"
  agent       = agent.search_r1
  stages      = ["main"]

  sampling {
    temperature = 1
  }

  reward {
    source "outcome" {
      reward "em" {}
    }
    total = outcome.value
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      warmup_steps = 286
      from_zero    = true
    }
    critic {
      optimizer "adamw" {
        learning_rate = 1e-5
      }
      schedule "constant" {
        warmup_steps = 15
        from_zero    = true
      }
    }
    algorithm "search-r1" {
      estimator         = "gae"
      group_size        = 1
      mini_batch        = 256
      mask_observations = false
    }
    steps     = 1004
    questions = 512
  }
}

# The first version: fewer steps, nearly all of them warm-up, and a sampling cut-off. Its release masked observations in
# the wrong places; here they are masked where they are.
experiment "search_r1_ppo_v01" {
  description = "Search-R1 with PPO, v0.1: reward for the answer alone, 304 steps"
  agent       = agent.search_r1
  stages      = ["main"]

  sampling {
    temperature = 1
    top_p       = 0.95
  }

  reward {
    source "outcome" {
      reward "em" {}
    }
    total = outcome.value
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      warmup_steps = 289 # 0.95 of 305 steps
      from_zero    = true
    }
    critic {
      optimizer "adamw" {
        learning_rate = 1e-5
      }
      schedule "constant" {
        warmup_steps = 15 # 0.05 of 305 steps
        from_zero    = true
      }
    }
    algorithm "search-r1" {
      estimator  = "gae"
      group_size = 1
      mini_batch = 256
    }
    steps     = 304
    questions = 512
  }
}

# The quick start of the release: Natural Questions alone, at most two searches, and a sampling cut-off.
experiment "search_r1_ppo_nq" {
  description = "Search-R1 with PPO, the quick start: two searches at most"
  agent       = agent.search_r1
  stages      = ["main"]

  sampling {
    temperature = 1
    top_p       = 0.95
  }

  reward {
    source "outcome" {
      reward "em" {}
    }
    total = outcome.value
  }

  stage "main" {
    agent {
      max_turns = 2
    }
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      warmup_steps = 286
      from_zero    = true
    }
    critic {
      optimizer "adamw" {
        learning_rate = 1e-5
      }
      schedule "constant" {
        warmup_steps = 15
        from_zero    = true
      }
    }
    algorithm "search-r1" {
      estimator  = "gae"
      group_size = 1
      mini_batch = 256
    }
    steps     = 1004
    questions = 512
  }
}

# The v0.3 reward: structure and answer together, 0.2 and 0.1 as in the released scripts.
experiment "search_r1_ppo_v03" {
  description = "Search-R1 with PPO, v0.3: the reward also looks at the form"
  agent       = agent.search_r1
  stages      = ["main"]

  sampling {
    temperature = 1
  }

  reward {
    source "outcome" {
      reward "searchr1-format" {
        structure_score = 0.2
        final_score     = 0.1
      }
    }
    total = outcome.value
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      warmup_steps = 286
      from_zero    = true
    }
    critic {
      optimizer "adamw" {
        learning_rate = 1e-5
      }
      schedule "constant" {
        warmup_steps = 15
        from_zero    = true
      }
    }
    algorithm "search-r1" {
      estimator  = "gae"
      group_size = 1
      mini_batch = 256
    }
    steps     = 1004
    questions = 512
  }
}
