# Shapes of trees, here and in the embedded world.

# Trees of one leaf are independent episodes, "chains": four of them, or the number of a set below.
set "chains" {
  stage "main" {
    algorithm "tree-grpo" {
      trees      = 4
      expansions = 0
      rounds     = 0
      leaves     = 1
      advantage  = "grpo"
    }
  }
}

set "chains_2" {
  stage "main" {
    algorithm "tree-grpo" { trees = 2 }
  }
}

set "chains_8" {
  stage "main" {
    algorithm "tree-grpo" { trees = 8 }
  }
}

set "chains_16" {
  stage "main" {
    algorithm "tree-grpo" { trees = 16 }
  }
}

# Trees of about the price of 2, 4, 8 and 16 chains.
set "trees_2" {
  stage "main" {
    algorithm "tree-grpo" {
      trees      = 1
      expansions = 2
      rounds     = 1
      leaves     = 3
    }
  }
}

set "trees_4" {
  stage "main" {
    algorithm "tree-grpo" {
      trees      = 2
      expansions = 2
      rounds     = 1
      leaves     = 3
    }
  }
}

set "trees_8" {
  stage "main" {
    algorithm "tree-grpo" {
      trees      = 2
      expansions = 6
      rounds     = 1
      leaves     = 7
    }
  }
}

set "trees_16" {
  stage "main" {
    algorithm "tree-grpo" {
      trees      = 4
      expansions = 5
      rounds     = 1
      leaves     = 6
    }
  }
}
