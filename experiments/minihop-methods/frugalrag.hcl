# FrugalRAG on the embedded world, all four stages of experiments/methods/frugalrag.hcl on the protocol of its own that
# minihop/fields.hcl has. Two prompts are tried four times each on every hop; reinforcement learning has the budget of the
# other methods here, 40 steps of 16 questions and 5 episodes each with 2 optimizer steps.
#
# Seed 0, 150 test questions, greedy: the base finds .512 of the gold documents with 1.25 searches, the tuned policy .869
# with 5.87, the one that has learnt to stop .856 with 2.73 (standard error .02; the experts need 2.43). Without exploring,
# against the fallback recall, .848 with 2.45: in this world reinforcement learning finds the searches by itself.

include {
  files = ["../papers/frugalrag/parts.hcl"]
}

# A base that searches well, and where it can finish mostly does so too early: see ../minihop/cold_fields.hcl.
policy "fields" {
  builtin = "minihop/fields"
}

# The prompts of minihop/fields.hcl with the question said again.
agent "minihop_fields_remind" {
  base = agent.minihop_fields
  user = "[[ ## question ## ]] ${question.text} %{for turn in turns}[[ ## thought ## ]] ${turn.thought} [[ ## query ## ]] ${turn.number == 1 ? "" : turn.query} [[ ## observation ## ]] ${turn.observation} %{endfor}[[ ## question ## ]] ${question.text} [[ ## tools ## ]] search finish "
}

agent "minihop_fields_search_remind" {
  base = agent.minihop_fields_search
  user = "[[ ## question ## ]] ${question.text} %{for turn in turns}[[ ## thought ## ]] ${turn.thought} [[ ## query ## ]] ${turn.number == 1 ? "" : turn.query} [[ ## observation ## ]] ${turn.observation} %{endfor}[[ ## question ## ]] ${question.text} [[ ## tools ## ]] search "
}

locals {
  frugalrag_metrics = ["evidence_recall", "evidence_all", "searches", "unnecessary_searches", "policy_tokens"]
}

experiment "frugalrag_small" {
  description = "FrugalRAG in the embedded world"
  base        = experiment.small
  policies    = { main = policy.fields }
  tools       = { search = tool.unseen }
  agent       = agent.minihop_fields
  agents = {
    plain         = agent.minihop_fields
    remind        = agent.minihop_fields_remind
    plain_search  = agent.minihop_fields_search
    remind_search = agent.minihop_fields_search_remind
  }
  stages = ["explore", "tune", "tau", "stop"]
  remove = ["stage.main", "reward.source.outcome"]

  reward {
    source "efficiency" {
      reward "frugalrag" {}
    }
    total = efficiency.value
  }

  stage "explore" {
    produce = "hops"
    sampling {
      temperature = 0.7
    }
    algorithm "frugalrag" {
      phase            = "explore"
      agents           = ["plain", "remind"]
      agents_no_finish = ["plain_search", "remind_search"]
      candidates       = 4
      recall_source    = "efficiency"
    }
    steps     = 16 # all 256 questions once
    questions = 16
  }

  stage "tune" {
    train   = artefact.hops
    experts = artefact.hops
    algorithm "sft" {
      missing_expert = "skip"
    }
    steps     = 64 # two passes
    questions = 8
  }

  stage "tau" {
    produce = "tau"
    agent   = agent.minihop_fields_search
    sampling {
      greedy = true
    }
    algorithm "frugalrag" {
      phase         = "tau"
      recall_source = "efficiency"
    }
    steps     = 16
    questions = 16
  }

  stage "stop" {
    annotations = artefact.tau
    sampling {
      temperature = 1
    }
    algorithm "frugalrag" {
      phase      = "stop"
      group_size = 5
      updates    = 2
    }
    steps     = var.steps
    questions = 16
  }

  # Finishing as it likes, and searching to the end.
  evaluate "test" {
    metrics = local.frugalrag_metrics
  }
  evaluate "search_on" {
    dataset = dataset.test
    agent   = agent.minihop_fields_search
    metrics = local.frugalrag_metrics
    every   = 20
    sampling {
      greedy = true
    }
  }
}

ablation "frugalrag" {
  description = "FrugalRAG against its parts: what exploring gives, and what learning to stop without it"
  seeds       = var.seeds
  primary     = metric("test", "evidence_recall")
  baseline    = { arm = "frugalrag" }

  arm "frugalrag" {
    experiment = experiment.frugalrag_small
  }

  arm "explore" { # FrugalRAG-Explore: what stage 1 alone gives
    experiment = experiment.frugalrag_small
    stages     = ["explore", "tune"]
  }

  arm "without_exploring" {
    experiment = experiment.frugalrag_small
    sets       = [set.without_stage_1]
  }
}
