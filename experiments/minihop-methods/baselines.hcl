# What the usual baselines start from in the embedded world, at one budget: 16 questions of 5 episodes, 40 steps, 2
# optimizer steps each. They differ in their algorithm alone, so they are arms over one experiment: see main.hcl.

experiment "grpo_small" {
  description = "GRPO in the embedded world"
  base        = experiment.small

  stage "main" {
    algorithm "grpo" {
      group_size = 5
      updates    = 2
    }
  }
}

# What the base answers without any training. "direct" may not search, "rag" gets what a search with the question
# finds, "agentic" searches as the trained agents do.
experiment "prompting_small" {
  description = "Prompting without training in the embedded world"
  policies    = { main = policy.habit }
  tools       = { search = tool.search }
  agent       = agent.minihop

  evaluate "test" {
    dataset = dataset.test
    sampling {
      greedy = true
    }
  }
}
