# What do trees cost? Six leaves per question, grown as trees of several shapes and as independent episodes, from a
# base that seldom searches and from one that experts have taught to. The policy stands still while it is measured; the
# table "What a run spent" of the report has the figures, divide them by var.budget_steps × 16 questions.
#
# The paper's count takes a branch for half an episode. It holds where episodes have many turns: where they answer at
# once there is nothing to share, and a branch is an episode of its own.

variable "budget_steps" {
  type        = number
  default     = 10
  description = "steps of 16 questions in which the cost is measured"
}

ablation "tree_budget" {
  description = "Sampled tokens and tool calls of six leaves per question: trees against independent episodes"
  seeds       = [0]
  primary     = metric("test", "em")
  baseline    = { arm = "episodes", experts = 1 }

  set {
    stages = ["experts", "main"]

    stage "experts" {
      train   = dataset.experts
      experts = dataset.experts
      algorithm "sft" {}
      questions = 4
    }

    stage "main" {
      optimizer "adamw" {
        learning_rate = 1e-12
      }
      steps = var.budget_steps
    }
  }

  arm "episodes" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "search-r1" {
        group_size = 6
      }
    }
  }

  arm "trees" {
    experiment = experiment.tree_grpo_small
  }

  arm "one_tree" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        trees      = 1
        expansions = 5
        leaves     = 6
        advantage  = "inter"
      }
    }
  }

  arm "two_rounds" {
    experiment = experiment.tree_grpo_small
    stage "main" {
      algorithm "tree-grpo" {
        expansions = 1
        rounds     = 2
      }
    }
  }

  axis "experts" {
    path        = stage.experts.steps
    values      = [1, 60]
    description = "supervised steps before the measurement"
  }
}
