# What FrugalRAG's studies leave out, here and in the embedded world.

# Reinforcement learning of the base, against the fallback recall, as there is none that a tuned policy reached.
set "without_stage_1" {
  stages = ["stop"]
  stage "stop" { annotations = null }
}

# The reward for evidence and form alone: nothing is lost by searching on.
set "without_late_penalty" {
  reward { total = max(efficiency.value, 0) }
}

# No hops of runs that cannot finish among those learnt from.
set "finish_only" {
  stage "explore" {
    algorithm "frugalrag" { no_finish_ratio = 0 }
  }
}
