# Which of StepSearch's rewards makes the agent search? The rows of the paper's ablations, each a change of the reward:
# everything but one part (its 7B rows), and one part beside the answer (its 3B rows).

ablation "stepsearch_parts" {
  description = "StepSearch without one of its rewards, and with one of them alone"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "stepsearch" }

  arm "stepsearch" {
    experiment = experiment.stepsearch_small
  }

  arm "without_keys" {
    description = "the answer and the searches' rewards alone"
    experiment  = experiment.stepsearch_small
    sets        = [set.without_keys]
  }

  arm "without_penalty" {
    experiment = experiment.stepsearch_small
    sets       = [set.without_penalty]
  }

  arm "without_gain" {
    experiment = experiment.stepsearch_small
    sets       = [set.without_gain]
  }

  arm "without_steps" {
    description = "the answer and the keywords alone"
    experiment  = experiment.stepsearch_small
    sets        = [set.without_steps]
  }

  arm "answer_and_penalty" {
    experiment = experiment.stepsearch_small
    sets       = [set.without_keys, set.without_gain]
  }

  arm "answer_and_gain" {
    experiment = experiment.stepsearch_small
    sets       = [set.without_keys, set.without_penalty]
  }

  arm "answer_alone" {
    experiment = experiment.stepsearch_small
    sets       = [set.without_keys, set.without_steps]
  }

  # The factor of the step rewards that the release means, in place of the one that it applies.
  arm "intended_scale" {
    experiment = experiment.stepsearch_small
    reward {
      source "steps" {
        reward "stepsearch-steps" { step_scale = 0.6 }
      }
    }
  }

  arm "groups" {
    description = "without a critic: the sum of all rewards, relative to the question's other episodes"
    experiment  = experiment.stepsearch_small
    stage "main" {
      algorithm "stepsearch" { estimator = "grpo" }
    }
  }
}
