# What GRASP's studies leave out, here and in the embedded world: a tool, or a term of the reward.

set "without_semantic" {
  agent { tools = ["keyword_search", "read_paragraph"] }
}

set "without_keyword" {
  agent { tools = ["semantic_search", "read_paragraph"] }
}

set "read_unrewarded" {
  reward {
    total = grasp.components["answer"] + 0.15 * grasp.components["search"] + 0.15 * grasp.components["efficiency"]
  }
}

set "search_unrewarded" {
  reward {
    total = grasp.components["answer"] + 0.70 * grasp.components["read"] + 0.15 * grasp.components["efficiency"]
  }
}

set "efficiency_unrewarded" {
  reward {
    total = grasp.components["answer"] + 0.70 * grasp.components["read"] + 0.15 * grasp.components["search"]
  }
}

set "answer_only" {
  reward { total = grasp.components["answer"] }
}
