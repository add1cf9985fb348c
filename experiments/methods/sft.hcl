# Supervised fine-tuning on expert episodes: the loss is on what the expert wrote, not on what the tools returned.

experiment "sft" {
  description = "Supervised fine-tuning on expert episodes"
  stages      = ["main"]

  stage "main" {
    optimizer "adamw" {
      learning_rate = 1e-5
    }
    algorithm "sft" {}
    steps     = 100
    questions = 8
  }
}
