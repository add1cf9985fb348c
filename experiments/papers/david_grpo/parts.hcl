# What David-GRPO's studies change, here and in the embedded world.

set "without_continuation" {
  stage "main" {
    algorithm "david-grpo" {
      continuation { enabled = false }
    }
  }
}

set "without_coverage" {
  reward { total = gates.value * outcome.value }
}

set "quarter_evidence" {
  reward { total = gates.value * (0.25 * coverage.value + 0.75 * outcome.value) }
}

set "three_quarters_evidence" {
  reward { total = gates.value * (0.75 * coverage.value + 0.25 * outcome.value) }
}

# Precision as well as recall of the evidence.
set "f1_of_evidence" {
  reward {
    source "coverage" {
      reward "evidence-coverage" { measure = "f1" }
    }
  }
}

# Not in the paper: the gates are in its code alone.
set "without_gates" {
  reward { total = 0.5 * coverage.value + 0.5 * outcome.value }
}

set "first_release" {
  stage "main" {
    algorithm "david-grpo" { loss = "c1" }
  }
}
