# Search-R1 (Jin et al., arXiv:2503.09516 and 2505.15117) with GRPO, as its scripts run it: v0.2, and v0.1 and v0.3 after
# it. All three sample with top_p = 0.95, although the log-probabilities of the loss are of the whole vocabulary.
# The prompt is not the paper's: it is worded anew from what the paper's prompt says.

agent "search_r1" {
  chat_template = true
  user          = file("prompts/search_r1.txt")

  protocol "tags" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "\n\n<information>", close = "</information>\n\n" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation = "%{for i, hit in hits}Doc ${i + 1}(Title: \"${hit.title}\") ${hit.text}\n%{endfor}"
  invalid     = "\nThat was no action I can carry out. To search, put a query between <search> and </search>; to answer, put the answer between <answer> and </answer>. Let me try again.\n"

  max_turns              = 4
  on_budget              = "close"
  max_prompt_tokens      = 2048
  max_response_tokens    = 4096
  max_observation_tokens = 500
  turn_tokens {
    first = 500
  }
}

experiment "search_r1" {
  description = "Search-R1 with GRPO: reward for the answer alone"
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
      warmup_steps = 286 # 0.285 of 1,005 steps
      from_zero    = true
    }
    algorithm "search-r1" {
      group_size = 5
      mini_batch = 256
    }
    steps     = 1004
    questions = 512
  }
}

# The first version: fewer steps, nearly all of them warm-up. Its release put every episode in a group of its own and took
# the divergence off with the wrong sign; here groups are questions and the divergence holds the policy back.
experiment "search_r1_v01" {
  description = "Search-R1 with GRPO, v0.1: reward for the answer alone, 304 steps"
  base        = experiment.search_r1

  stage "main" {
    schedule "constant" {
      warmup_steps = 289 # 0.95 of 305 steps
    }
    steps = 304
  }
}

# The v0.3 reward: structure and answer together, 0.2 and 0.1 as in the released scripts.
experiment "search_r1_v03" {
  description = "Search-R1 v0.3 with GRPO: the reward also looks at the form"
  base        = experiment.search_r1

  reward {
    source "outcome" {
      reward "searchr1-format" {
        structure_score = 0.2
        final_score     = 0.1
      }
    }
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 5e-7
    }
  }
}
