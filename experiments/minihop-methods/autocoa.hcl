# AutoCoA in the embedded world: pairs with and without tools, expert episodes, then GRPO.

experiment "autocoa_small" {
  description = "AutoCoA in the embedded world"
  base        = experiment.small
  stages      = ["when", "how", "reinforce"]
  remove      = ["stage.main"]

  reward {
    source "outcome" {
      reward "em" {}
    }
  }

  stage "when" {
    algorithm "preference" {}
    steps     = 10
    questions = 16
  }

  stage "how" {
    train   = dataset.experts
    experts = dataset.experts
    algorithm "sft" {
      mini_batch = 8
    }
    steps     = 25
    questions = 4
  }

  stage "reinforce" {
    algorithm "grpo" {
      group_size = 5
      updates    = 2
      kl {
        coefficient = 0.001
      }
    }
    steps     = var.steps
    questions = 16
  }
}
