# AutoCoA (Zhang et al., arXiv:2503.06580): when to search from pairs, how to search from expert episodes, then GRPO
# with the real search engine. The stages that its table calls SFT-1, SFT-2 and RL-2, which together gave its best
# agent; SFT-3 is observations = "trained" on the algorithm sft.
#
# Where it differs from the paper: the pairs are the policy's own episodes with and without tools, not a larger model's
# continuations of a shared prefix; they share the prompt only. Training in a simulated environment (RL-1), where the
# policy writes the search results itself, is not supported. Observations are masked in every term, not in the
# advantage alone.
# The prompt is not the paper's: it is worded anew from what the paper's prompt says.

agent "coa" {
  chat_template = true
  user          = file("prompts/coa.txt")

  protocol "tags" {
    think          = { open = "<think>", close = "</think>" } # the chat template opens the thought
    call           = { open = "<begin_search>", close = "</end_search>" }
    observation    = { open = "\n\n<search_result> ", close = " </search_result>\n\n" }
    answer         = { open = "\\boxed{", close = "}" }
    stop_at_answer = false
    calls_in_think = true
  }
  observation = "%{for i, hit in hits}result ${i + 1}: \"${hit.title}\"\n${hit.text}\n%{endfor}"
  limit       = "No further search is allowed."

  max_searches        = 10
  on_budget           = "limit_text"
  max_prompt_tokens   = 1024
  max_response_tokens = 8192
  turn_tokens {
    first = 2048
    next  = 1024
    last  = 2048
  }
}

experiment "autocoa" {
  description = "AutoCoA: pairs, expert episodes, then GRPO"
  agent       = agent.coa
  stages      = ["when", "how", "reinforce"]

  sampling {
    temperature = 0.6
  }
  reward {
    source "outcome" {
      reward "autocoa-outcome" {}
    }
    total = outcome.value
  }

  stage "when" {
    optimizer "adamw" {
      learning_rate = 5e-6
    }
    schedule "cosine" {}
    algorithm "preference" {
      epochs = 2
    }
    steps     = 94 # 1,500 pairs, if each question gives one
    questions = 16
  }

  # experts: chain-of-action episodes (and, for questions that need no search, chains of thought).
  stage "how" {
    optimizer "adamw" {
      learning_rate = 5e-5
    }
    schedule "cosine" {}
    algorithm "sft" {
      aggregation = "token_mean"
      mini_batch  = 32
    }
    steps     = 376 # 2 passes over 6,000 episodes
    questions = 32
  }

  stage "reinforce" {
    optimizer "adamw" {
      learning_rate = 7e-7
    }
    algorithm "grpo" {
      group_size          = 5
      entropy_coefficient = 0.001
      kl {
        coefficient = 0.001
      }
    }
    steps     = 96
    questions = 48
  }
}
