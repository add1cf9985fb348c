# Tree-GRPO in the embedded world: two trees of three leaves per question, the cost of about four independent episodes.

experiment "tree_grpo_small" {
  description = "Tree-GRPO in the embedded world"
  base        = experiment.small

  stage "main" {
    algorithm "tree-grpo" {
      updates = 2
    }
  }
}
