# Search-R1 (Jin et al., arXiv:2503.09516 and 2505.15117) with PPO, as its scripts run it: a critic that starts as the
# policy, advantages per token (gamma = lambda = 1) over the whole response, the divergence from the starting policy in
# the reward, one episode per question.
# The prompt is not the paper's: it is worded anew from what the paper's prompt says.

include {
  files = ["search_r1.hcl"] # GRPO with the same agent, reward and number of steps
}

experiment "search_r1_ppo" {
  description = "Search-R1 with PPO, v0.2: reward for the answer alone"
  base        = experiment.search_r1

  sampling {
    top_p = null
  }

  stage "main" {
    critic {
      optimizer "adamw" {
        learning_rate = 1e-5
      }
      schedule "constant" {
        warmup_steps = 15 # 0.015 of 1,005 steps, and 0.05 of the 305 of v0.1
        from_zero    = true
      }
    }
    algorithm "search-r1" {
      estimator  = "gae"
      group_size = 1
    }
  }
}

# The paper's ablation: what the search engine returned is not masked out of the policy's loss.
experiment "search_r1_ppo_unmasked" {
  description = "Search-R1 with PPO, v0.2, trained on documents too"
  base        = experiment.search_r1_ppo

  stage "main" {
    algorithm "search-r1" {
      mask_observations = false
    }
  }
}

# The first version: fewer steps, nearly all of them warm-up, and a sampling cut-off. Its release masked observations in
# the wrong places; here they are masked where they are.
experiment "search_r1_ppo_v01" {
  description = "Search-R1 with PPO, v0.1: reward for the answer alone, 304 steps"
  base        = experiment.search_r1_ppo

  sampling {
    top_p = 0.95
  }

  stage "main" {
    schedule "constant" {
      warmup_steps = 289 # 0.95 of 305 steps
    }
    steps = 304
  }
}

# The quick start of the release: Natural Questions alone, at most two searches, and a sampling cut-off.
experiment "search_r1_ppo_nq" {
  description = "Search-R1 with PPO, the quick start: two searches at most"
  base        = experiment.search_r1_ppo

  sampling {
    top_p = 0.95
  }

  stage "main" {
    agent {
      max_turns = 2
    }
  }
}

# The v0.3 reward: structure and answer together, 0.2 and 0.1 as in the released scripts.
experiment "search_r1_ppo_v03" {
  description = "Search-R1 with PPO, v0.3: the reward also looks at the form"
  base        = experiment.search_r1_ppo

  reward {
    source "outcome" {
      reward "searchr1-format" {
        structure_score = 0.2
        final_score     = 0.1
      }
    }
  }
}
