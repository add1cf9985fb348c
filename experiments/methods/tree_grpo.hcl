# Tree-GRPO (arXiv:2509.21240) with the numbers of its released scripts. A step of 512 questions trains on 3,072 episodes:
# two trees per question with three leaves each, at a cost of about four independent episodes.
# The prompt is not the paper's: it is worded anew from what the paper's prompt says.

include {
  files = ["search_r1.hcl"] # its agent
}

agent "tree_grpo" {
  base              = agent.search_r1
  max_turns         = 3 # and a closing one without tools
  max_prompt_tokens = 4096
}

experiment "tree_grpo" {
  description = "Tree-GRPO: questions over a corpus, reward for exact answer and form"
  agent       = agent.tree_grpo
  stages      = ["main"]

  sampling {
    temperature = 1
    top_p       = 0.95
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
      warmup_steps = 51 # 0.285 of 180 steps
      from_zero    = true
    }
    algorithm "tree-grpo" {
      trees      = 2
      expansions = 2
      rounds     = 1
      leaves     = 3
      mini_batch = 64
    }
    steps     = 179
    questions = 512
  }
}

# The web agent: more and longer turns, F1 in place of exact match.
experiment "tree_grpo_web" {
  description = "Tree-GRPO for a web agent: five turns, reward for F1 and form"
  base        = experiment.tree_grpo
  remove      = ["stage.main.schedule"]

  reward {
    source "outcome" {
      reward "searchr1-format" {
        answer_score = "f1"
        final_score  = null
      }
    }
  }

  stage "main" {
    agent {
      max_turns              = 5
      max_prompt_tokens      = 8000
      max_response_tokens    = 8000
      max_observation_tokens = 1000
      turn_tokens {
        first = 2000
      }
    }
    steps     = 33
    questions = 128
  }
}
