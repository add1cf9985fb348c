# Does an agent keep searching when it is trained with reinforcement learning on a small budget? Search-R1's GRPO
# against David-GRPO, each as a whole method, scaled to the embedded world.

include {
  files = ["../methods/search_r1.hcl", "../methods/david_grpo.hcl"]
}

ablation "demo" {
  description = "Search-R1 (GRPO, v0.3 reward) against David-GRPO, from a base that seldom searches"
  seeds       = [0, 1, 2]
  primary     = metric("test", "em")
  baseline    = { arm = "search_r1" }

  set {
    policies = { main = policy.habit }
    tools    = { search = tool.search }
    train    = dataset.train
    agent    = agent.minihop

    sampling {
      temperature = 1
    }
    evaluate "test" {
      dataset = dataset.test
      every   = 20
      sampling {
        greedy = true
      }
    }
    evaluate "elsewhere" {
      dataset = dataset.elsewhere
      tools   = { search = tool.elsewhere }
      sampling {
        greedy = true
      }
    }
    stage "main" {
      optimizer "adamw" {
        learning_rate = 3e-4
      }
      schedule "constant" {}
      steps     = 40
      questions = 16
    }
  }

  arm "search_r1" {
    experiment = experiment.search_r1_v03
    stage "main" {
      algorithm "search-r1" {
        updates = 2
      }
    }
  }

  arm "david_grpo" {
    experiment = experiment.david_grpo
    reward {
      source "gates" {
        reward "david-gates" {
          scope        = "response"
          search_open  = "<search>"
          search_close = "</search>"
          result_open  = "<information>"
          result_close = "</information>"
          answer_open  = "<answer>"
          answer_close = "</answer>"
        }
      }
      source "outcome" {
        reward "david-outcome" {
          answer_from = "episode"
        }
      }
    }
    stage "seed" {
      experts = dataset.experts
      train   = dataset.experts
      agent {
        max_searches = 4
      }
      optimizer "adamw" {
        learning_rate = 3e-4
      }
      schedule "constant" {}
      steps = 25
    }
    stage "main" {
      algorithm "david-grpo" {
        updates = 2
      }
    }
  }
}
