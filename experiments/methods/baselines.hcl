# The usual critic-free methods of reinforcement learning, each with the settings of its own paper, on the agent of
# Search-R1. The reward is the answer's exact match, as there.
#
# Learning rates and numbers of questions are those that the papers (GRPO, RLOO, REINFORCE++, DAPO) or the released scripts
# (Dr. GRPO, LUFFY) give for their own tasks and models; GSPO gives none. The numbers of steps are ours. A study that
# compares the methods sets all of them alike. What is not said of a method is as under "grpo".

include {
  files = ["search_r1.hcl", "prompting.hcl"] # their agents
}

experiment "grpo" {
  description = "GRPO as in DeepSeekMath: 64 episodes per question, divergence 0.04, one update per step"
  agent       = agent.search_r1

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
    algorithm "grpo" {}
    steps     = 500
    questions = 16 # 1,024 episodes
  }
}

experiment "rloo" {
  description = "RLOO: leave-one-out baseline, the response as one action, divergence in the reward"
  base        = experiment.grpo

  stage "main" {
    algorithm "rloo" {}
    questions = 128
  }
}

experiment "reinforce_pp" {
  description = "REINFORCE++: divergence per token in the reward, advantages normalised over the whole step"
  base        = experiment.grpo

  stage "main" {
    optimizer "adamw" {
      learning_rate = 5e-7
    }
    algorithm "reinforce-pp" {}
    questions = 256
  }
}

experiment "dr_grpo" {
  description = "Dr. GRPO: no division by spread or length"
  base        = experiment.grpo

  stage "main" {
    algorithm "dr-grpo" {}
    questions = 128
  }
}

# The paper's reward is 1 for a right answer and -1 for others: advantages are the same.
experiment "dapo" {
  description = "DAPO: wider clip upwards, mean over tokens, dynamic sampling, soft length penalty"
  base        = experiment.grpo

  reward {
    total = 2 * outcome.value - 1
  }

  stage "main" {
    schedule "constant" {
      warmup_steps = 20
    }
    algorithm "dapo" {}
    questions = 512
  }
}

experiment "gspo" {
  description = "GSPO: ratio and clip of whole responses, four updates per step"
  base        = experiment.grpo

  stage "main" {
    algorithm "gspo" {}
    questions = 128
  }
}

# LUFFY (arXiv:2504.14945). A study gives train and experts the same questions: every question needs an expert episode,
# unless missing_expert = "skip".
experiment "offpolicy_mix" {
  description = "LUFFY: one expert episode in each group, shaped probabilities, no clip"
  base        = experiment.grpo

  stage "main" {
    algorithm "offpolicy-mix" {}
    questions = 128
  }
}

# Search-R1's comparison "R1": the same training without a search engine.
experiment "r1" {
  description = "R1 as Search-R1 compares with it: GRPO on reasoning without search"
  base        = experiment.search_r1
  agent       = agent.think
}
