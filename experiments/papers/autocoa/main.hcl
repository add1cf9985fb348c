# AutoCoA's table: its stages alone and one after the other.

include {
  files = ["../world.hcl", "../single_hop.hcl", "../../methods/prompting.hcl", "../../methods/search_r1.hcl", "../../methods/autocoa.hcl"]
}

variable "experts" {
  type        = string
  default     = "hotpotqa/experts.jsonl"
  description = "questions with expert transcripts (chains of action, and of thought alone), a file in data"
}

variable "prompt" {
  type        = string
  default     = "../../methods/prompts/coa.txt"
  description = "the prompt, a file in this folder: by default ours, which is not the paper's"
}

dataset "experts" {
  path           = "${var.data}/${var.experts}"
  max_unresolved = 1 # the experts searched another copy of Wikipedia
}

policy "model" {
  path        = "${var.models}/DeepSeek-R1-Distill-Qwen-7B"
  max_context = 9216
}

set "prompt" {
  agent {
    user = file(var.prompt)
  }
}

set "experts" {
  stage "how" {
    train   = dataset.experts
    experts = dataset.experts
  }
}

ablation "main" {
  description = "AutoCoA's stages, alone and one after the other"
  seeds       = var.seeds
  primary     = metric(["hotpotqa", "wiki2", "musique", "bamboogle", "nq", "triviaqa"], "em")
  baseline    = { arm = "react" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.hotpotqa_train

    evaluate "hotpotqa" {
      dataset  = dataset.hotpotqa
      sampling = { temperature = 0.6 }
    }
    evaluate "wiki2" {
      dataset  = dataset.wiki2
      sampling = { temperature = 0.6 }
    }
    evaluate "musique" {
      dataset  = dataset.musique
      sampling = { temperature = 0.6 }
    }
    evaluate "bamboogle" {
      dataset  = dataset.bamboogle
      sampling = { temperature = 0.6 }
    }
    evaluate "nq" {
      dataset  = dataset.nq
      sampling = { temperature = 0.6 }
    }
    evaluate "triviaqa" {
      dataset  = dataset.triviaqa
      sampling = { temperature = 0.6 }
    }
  }

  arm "no_tools" {
    experiment = experiment.think
  }

  arm "react" {
    experiment = experiment.autocoa
    stages     = []
    sets       = [set.prompt]
  }

  arm "sft_1" {
    experiment = experiment.autocoa
    stages     = ["when"]
    sets       = [set.prompt]
  }

  arm "sft_2" {
    experiment = experiment.autocoa
    stages     = ["how"]
    sets       = [set.prompt, set.experts]
  }

  arm "sft_1_2" {
    experiment = experiment.autocoa
    stages     = ["when", "how"]
    sets       = [set.prompt, set.experts]
  }

  arm "sft_1_2_3" {
    experiment = experiment.autocoa
    stages     = ["when", "how", "observe"]
    sets       = [set.prompt, set.experts]
    stage "observe" { # the same, trained on what the tool returned as well
      train   = dataset.experts
      experts = dataset.experts
      optimizer "adamw" {
        learning_rate = 5e-5
      }
      schedule "cosine" {}
      algorithm "sft" {
        aggregation  = "token_mean"
        mini_batch   = 32
        observations = "trained"
      }
      steps     = 376
      questions = 32
    }
  }

  arm "rl_2" {
    experiment = experiment.autocoa
    stages     = ["reinforce"]
    sets       = [set.prompt]
  }

  arm "whole" {
    experiment = experiment.autocoa
    stages     = ["when", "how", "reinforce"]
    sets       = [set.prompt, set.experts]
  }
}
