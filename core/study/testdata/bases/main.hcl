# The embedded base policies, untrained, on the training questions of one world: what a base is accepted by.

include {
  files = ["../../../../experiments/minihop/world.hcl"]
}

experiment "base" {
  tools  = { search = tool.search }
  agent  = agent.minihop
  stages = []

  evaluate "samples" {
    dataset = dataset.train
    samples = 8
    sampling {
      temperature = 1
    }
  }
}

ablation "bases" {
  seeds    = [0]
  primary  = metric("samples", "em")
  baseline = { arm = "habit" }

  arm "habit" {
    experiment = experiment.base
    policies   = { main = policy.habit }
  }

  arm "never" {
    experiment = experiment.base
    policies   = { main = policy.never }
  }
}
