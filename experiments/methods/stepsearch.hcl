# StepSearch (arXiv:2505.15107): StePPO, with rewards for the answer, for the queries and for each search, as its release
# runs it (train.sh, 3B base). Questions need search keywords and supporting paragraphs: format "stepsearch".
# The prompt is not the paper's: it is worded anew from what the paper's prompt says. So are the texts of the warnings.
#
# Rows of the paper's ablation are changes of the reward:
#   without search keys    total = answer.components["closed"] == 1 ? answer.value : -1
#   without the penalty    source "steps" { reward "stepsearch-steps" { redundancy_penalty = false } }
#   without the gain       source "steps" { reward "stepsearch-steps" { information_gain = false } }
#   without step rewards   turn_total = null
# "only with" a part is a removal of the others; only with sub-answers leaves total = answer.value behind the gate.
# ../papers/stepsearch has them as the arms of a study.

agent "stepsearch" {
  chat_template = true
  user          = file("prompts/stepsearch.txt")

  protocol "tags" {
    think       = { open = "<plan>", close = "</plan>" }
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "\n\n<information> ", close = " </information>\n\n" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  observation = "%{for i, hit in hits}Doc ${i + 1}<## Title: ${hit.title} ##> ${hit.text}\n%{endfor}"
  invalid     = "\n<warning> That was no action I can carry out. To search, put a query between <search> and </search>; to answer, put the answer between <answer> and </answer>. Let me try again. </warning>\n"
  closing     = "<warning> From here on nothing can be looked up with <search></search> any more. I have to go through what I have found, think one last time and give my answer. </warning>\n\n"

  max_turns              = 5 # and a closing one without tools
  on_budget              = "close"
  max_prompt_tokens      = 2048
  max_response_tokens    = 4096
  max_observation_tokens = 800
  turn_tokens {
    first = 800
  }
}

experiment "stepsearch" {
  description = "StepSearch: PPO with rewards per search for information gained, less repeated documents"
  agent       = agent.stepsearch
  stages      = ["main"]

  sampling {
    temperature = 1
    top_p       = 0.95
  }

  reward {
    source "answer" {
      reward "stepsearch-answer" {}
    }
    source "keys" {
      reward "stepsearch-keys" {
        repeated = "overwrite" # as released; "max" is what was meant
      }
    }
    source "steps" {
      reward "stepsearch-steps" {
        step_scale = 1.6           # as released; 0.6 is what was meant
        documents  = "observation" # as released: the text of a document ends in the number of the next one
        redundancy = "text"
      }
    }
    # An episode that does not end with its answer earns -1 and nothing for its searches.
    total      = answer.components["closed"] == 1 ? answer.value + 0.618 * keys.value : -1
    turn_total = answer.components["closed"] == 1 ? steps.turn : 0
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 5e-7
    }
    schedule "constant" {
      warmup_steps = 319 # 0.285 of 1,120 steps
      from_zero    = true
    }
    critic {
      optimizer "adamw" {
        learning_rate = 5e-7
      }
      schedule "constant" {
        warmup_steps = 56 # 0.05 of 1,120 steps
        from_zero    = true
      }
    }
    algorithm "stepsearch" {
      group_size = 1
      mini_batch = 32
    }
    steps     = 1119
    questions = 128
  }
}
