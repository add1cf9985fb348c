# The ablations of ../main.hcl in the embedded world. The bases take the place of the language models.

study {
  name = "search_r1_minihop"
}

include {
  files = ["../../../minihop/world.hcl", "../../../minihop/small.hcl", "../../../minihop-methods/search_r1_ppo.hcl", "../../../minihop-methods/baselines.hcl"]
}

ablation "main" {
  description = "Search-R1 with PPO and GRPO, prompting, and training without search"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "rag", base = "minihop/habit" }
  sets        = [set.elsewhere]

  arm "direct" {
    experiment = experiment.prompting_small
    agent { tools = [] }
  }

  arm "rag" {
    experiment = experiment.prompting_small
    agent {
      first_action = "search_question"
      max_searches = 1
      on_budget    = "close"
    }
  }

  arm "agentic" {
    experiment = experiment.prompting_small
  }

  arm "sft" {
    experiment = experiment.grpo_small
    train      = dataset.experts
    stage "main" {
      experts = dataset.experts
      algorithm "sft" { mini_batch = 8 }
    }
  }

  arm "r1_without_search" {
    experiment = experiment.search_r1_ppo_small
    agent { tools = [] }
  }

  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo_small
  }

  arm "search_r1_grpo" {
    experiment = experiment.search_r1_small
  }

  axis "base" {
    path   = policies.main.builtin
    values = ["minihop/habit", "minihop/never"]
  }
}

ablation "masking" {
  description = "PPO with and without the mask on retrieved tokens"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "masked" }

  arm "masked" {
    experiment = experiment.search_r1_ppo_small
  }

  arm "unmasked" {
    experiment = experiment.search_r1_ppo_small
    stage "main" {
      algorithm "search-r1" { mask_observations = false }
    }
  }
}

ablation "passages" {
  description = "One, two and three documents per search"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { k = 2 }

  arm "search_r1_ppo" {
    experiment = experiment.search_r1_ppo_small
  }

  axis "k" {
    path   = tools.search.k
    values = [1, 2, 3]
  }
}

ablation "group" {
  description = "Groups of one, three and five"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { group = 5 }

  arm "search_r1_grpo" {
    experiment = experiment.search_r1_small
  }

  axis "group" {
    path   = stage.main.algorithm.group_size
    values = [1, 3, 5]
  }
}

set "form" {
  reward {
    source "outcome" {
      reward "searchr1-format" {
        structure_score = 0.2
        final_score     = 0.1
      }
    }
  }
}

ablation "rewards" {
  description = "The answer alone, with the form, and with what was found"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "answer" }

  arm "answer" {
    experiment = experiment.search_r1_ppo_small
    reward {
      source "outcome" {
        reward "em" {}
      }
    }
  }

  arm "form" {
    experiment = experiment.search_r1_ppo_small
    sets       = [set.form]
  }

  arm "form_and_retrieval" {
    experiment = experiment.search_r1_ppo_small
    sets       = [set.form]
    reward {
      source "outcome" {
        reward "searchr1-format" { retrieval_score = 0.1 }
      }
    }
  }

  arm "form_grpo" {
    experiment = experiment.search_r1_small
    sets       = [set.form]
  }
}

encoder "weak" {
  base       = encoder.hashed
  dimensions = 32
}

index "weak" {
  base    = index.dense
  encoder = encoder.weak
}

tool "weak" {
  base = tool.search
  retriever "dense" { index = index.weak }
}

ablation "engines" {
  description = "Trained with a weak and with a better search engine, tested with the better one"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "better" }

  set {
    evaluate "test" {
      tools = { search = tool.search }
    }
  }

  arm "better" {
    experiment = experiment.search_r1_ppo_small
  }

  arm "weak" {
    experiment = experiment.search_r1_ppo_small
    tools      = { search = tool.weak }
  }
}
