# All methods in the embedded world, on one budget: 40 steps of 16 questions with 5 episodes each (trees: 6 leaves),
# two optimizer steps per step. Who keeps searching, who stops, what does it cost? REPORT.md has the answer.

include {
  files = ["../minihop/world.hcl", "../minihop/small.hcl", "../minihop/fields.hcl"]
}

# The scripted episodes are 100 questions of the training set.
set "experts" {
  train = dataset.experts
  stage "main" {
    experts = dataset.experts
  }
}

ablation "methods" {
  description = "All methods on one budget, from both bases"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "grpo", base = "minihop/habit" }
  sets        = [set.elsewhere]

  # The methods of the papers.

  arm "search_r1" {
    experiment = experiment.search_r1_small
  }

  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo_small
  }

  arm "tree_grpo" {
    experiment = experiment.tree_grpo_small
  }

  arm "stepsearch" {
    experiment = experiment.stepsearch_small
  }

  arm "david_grpo" {
    experiment = experiment.david_small
  }

  arm "autocoa" {
    experiment = experiment.autocoa_small
  }

  # Each on a base of its own, which was trained on its protocol. FrugalRAG finds evidence and leaves the answer to
  # another model: there is none here, so it has no exact match.

  arm "frugalrag" {
    experiment = experiment.frugalrag_small
    remove     = ["evaluate.elsewhere"]
    evaluate "test" {
      metrics = ["em", "f1", "evidence_recall", "evidence_any", "evidence_all", "searches", "unnecessary_searches", "policy_tokens"]
    }
  }

  arm "grasp" {
    experiment = experiment.grasp_small
    remove     = ["evaluate.elsewhere"]
  }

  # Reinforcement learning without a critic, with the reward of Search-R1.

  arm "grpo" {
    experiment = experiment.grpo_small
  }

  arm "rloo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "rloo" {
        group_size = 5
        updates    = 2
      }
    }
  }

  arm "reinforce_pp" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "reinforce-pp" {
        group_size = 5
        updates    = 2
      }
    }
  }

  arm "reinforce_pp_baseline" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "reinforce-pp" {
        group_size = 5
        baseline   = "group_mean"
        updates    = 2
      }
    }
  }

  arm "dr_grpo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "dr-grpo" {
        group_size        = 5
        length_normalizer = 84 # six turns of 14 tokens
        updates           = 2
      }
    }
  }

  arm "dapo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "dapo" {
        group_size = 5
        updates    = 2
        overlong {
          max_tokens = 84
          buffer     = 28
        }
      }
    }
  }

  arm "gspo" {
    experiment = experiment.grpo_small
    stage "main" {
      algorithm "gspo" {
        group_size = 5
        updates    = 2
      }
    }
  }

  arm "offpolicy_mix" {
    experiment = experiment.grpo_small
    sets       = [set.experts]
    stage "main" {
      algorithm "offpolicy-mix" {
        group_size        = 5
        length_normalizer = 84
        updates           = 2
      }
    }
  }

  arm "preference" {
    experiment = experiment.grpo_small
    sets       = [set.experts]
    stage "main" {
      algorithm "preference" {
        pairs      = "expert"
        mini_batch = 40
      }
    }
  }

  # Nothing is sampled: 16 expert episodes per step in place of 80 of the policy's.
  arm "sft" {
    experiment = experiment.grpo_small
    sets       = [set.experts]
    stage "main" {
      algorithm "sft" {
        mini_batch = 8
      }
    }
  }

  arm "r1" {
    experiment = experiment.grpo_small
    agent {
      tools = []
    }
  }

  arm "agentic" {
    experiment = experiment.prompting_small
  }

  arm "direct" {
    experiment = experiment.prompting_small
    agent {
      tools = []
    }
  }

  arm "rag" {
    experiment = experiment.prompting_small
    agent {
      first_action = "search_question"
      max_searches = 1
      on_budget    = "stop"
    }
  }

  axis "base" {
    path   = policies.main.builtin
    values = ["minihop/habit", "minihop/never"]
    arms   = ["search_r1", "search_r1_ppo", "tree_grpo", "stepsearch", "david_grpo", "autocoa", "grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "dr_grpo", "dapo", "gspo", "offpolicy_mix", "preference", "sft", "r1", "agentic", "direct", "rag"]
  }
}
