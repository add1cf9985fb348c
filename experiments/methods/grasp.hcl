# GRASP (arXiv:2607.10463): sentences are searched by meaning and by words, paragraphs are read on demand, and the reward
# looks at the answer, at what was read, at both searches and at the number of turns. Trained with GRPO, without
# supervised warm-up.
# The paper came without code and its appendix was not to be had: the protocol, the horizon, the threshold and the form
# of the efficiency, and all settings of GRPO but the batch and the steps are defaults of ours.
# The prompt is not the paper's: it is worded anew from what the paper says about it.
#
# A study gives it the tools semantic_search, keyword_search and read_paragraph, over the sentences of its corpus:
#   index "sentences"      { unit = "sentence", encoder = …, hnsw { m = 32, ef_construction = 200, ef_search = 128 } }
#   index "sentence_words" { unit = "sentence", bm25 {} }
# Without reading, both searches find paragraphs: indexes of unit "paragraph", and level = "paragraph" in the tools.

agent "grasp" {
  chat_template = true
  system        = file("prompts/grasp.txt")
  user          = "${question.text}"

  protocol "json" {
    think       = { open = "<think>", close = "</think>" }
    call        = { open = "<tool_call>", close = "</tool_call>" }
    observation = { open = "\n<tool_response>\n", close = "\n</tool_response>\n" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
  # A search gives a line per sentence; what is read has none of its own.
  observation = "%{for i, hit in hits}%{if hit.sentence_id == ""}(${hit.paragraph_id}) ${hit.title}\n${hit.text}\n%{else}[${i + 1}] (${hit.paragraph_id}) ${hit.title}: ${hit.text}\n%{endif}%{endfor}turns left: ${turns_left + 1}"

  max_turns           = 9 # and one that answers: ten in all
  on_budget           = "close"
  max_prompt_tokens   = 1024
  max_response_tokens = 7168
  turn_tokens {
    first = 512
  }
}

experiment "grasp" {
  description = "GRASP: search by meaning and by words over sentences, reading on demand, GRPO"
  agent       = agent.grasp
  stages      = ["main"]

  sampling {
    temperature = 1
  }

  reward {
    source "grasp" {
      reward "grasp" {
        theta      = 0.5      # ours
        efficiency = "linear" # ours: 1 - turns / t_max
        t_max      = 10       # ours
      }
    }
    total = grasp.components["answer"] + 0.70 * grasp.components["read"] + 0.15 * grasp.components["search"] + 0.15 * grasp.components["efficiency"]
  }

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-6
    }
    schedule "constant" {
      warmup_steps = 14 # 0.05 of the steps
    }
    algorithm "grpo" {
      group_size = 8
      kl {
        coefficient = 0.001
      }
    }
    steps     = 270
    questions = 64
  }

  guard "one_tool" {
    when   = metrics["episode/searches"] < 0.5 && step > 50
    action = "warn"
  }
}
