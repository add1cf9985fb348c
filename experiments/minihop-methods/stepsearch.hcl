# StepSearch in the embedded world. Its questions carry the queries and the documents of their hops, and its documents
# have no titles to mark, so they are compared as the tool returns them.

experiment "stepsearch_small" {
  description = "StepSearch in the embedded world"
  base        = experiment.small
  remove      = ["reward.source.outcome"]

  reward {
    source "answer" {
      reward "stepsearch-answer" {}
    }
    source "keys" {
      reward "stepsearch-keys" {}
    }
    source "steps" {
      reward "stepsearch-steps" {}
    }
    total      = answer.components["closed"] == 1 ? answer.value + 0.618 * keys.value : -1
    turn_total = answer.components["closed"] == 1 ? steps.turn : 0
  }

  stage "main" {
    algorithm "stepsearch" {
      group_size = 5
      updates    = 2
    }
  }
}
