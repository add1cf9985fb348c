# The whole method with a few questions, and its base as it is.

include {
  files = ["../../../../experiments/minihop/world.hcl", "../../../../experiments/minihop/small.hcl", "../../../../experiments/minihop/fields.hcl", "../../../../experiments/minihop-methods/frugalrag.hcl"]
}

dataset "few" {
  builtin = "minihop"
  split   = "test"
  seed    = seed + 1
  limit   = 60
}

dataset "ten" {
  builtin = "minihop"
  split   = "train"
  seed    = seed + 1
  limit   = 10
  order   = "given"
}

experiment "base" {
  policies = { main = policy.fields }
  tools    = { search = tool.unseen }
  agent    = agent.minihop_fields

  evaluate "finishing" {
    dataset = dataset.few
    metrics = ["evidence_recall", "searches"]
    sampling {
      greedy = true
    }
  }
  evaluate "searching" {
    dataset = dataset.few
    agent   = agent.minihop_fields_search
    metrics = ["evidence_recall", "searches"]
    sampling {
      greedy = true
    }
  }
}

ablation "small" {
  seeds    = [0]
  primary  = metric("finishing", "evidence_recall")
  baseline = { arm = "base" }

  arm "base" {
    experiment = experiment.base
  }

  arm "whole" {
    experiment = experiment.frugalrag_small
    train      = dataset.ten
    remove     = ["evaluate.test", "evaluate.search_on"]
    stage "explore" {
      steps     = 2
      questions = 5
      algorithm "frugalrag" {
        no_finish_ratio = 0.5
      }
    }
    stage "tune" {
      steps     = 2
      questions = 5
    }
    stage "tau" {
      steps     = 2
      questions = 5
    }
    stage "stop" {
      steps     = 2
      questions = 3
    }
    evaluate "finishing" {
      dataset = dataset.ten
      metrics = ["evidence_recall", "searches"]
    }
  }
}
