# The parts of StepSearch's reward that its studies leave out, here and in the embedded world.

set "without_keys" {
  reward { total = answer.components["closed"] == 1 ? answer.value : -1 }
}

set "without_penalty" {
  reward {
    source "steps" {
      reward "stepsearch-steps" { redundancy_penalty = false }
    }
  }
}

set "without_gain" {
  reward {
    source "steps" {
      reward "stepsearch-steps" { information_gain = false }
    }
  }
}

set "without_steps" {
  reward { turn_total = null }
}
