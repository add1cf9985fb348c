# One part of David-GRPO changed: what it searches with.

ablation "retrievers" {
  description = "David-GRPO over a hashed dense index and over BM25"
  seeds       = var.seeds
  primary     = metric("test", "em")
  baseline    = { arm = "david_grpo", retriever = tool.search }

  arm "david_grpo" {
    experiment = experiment.david_small
  }

  axis "retriever" {
    path   = tools.search
    values = [tool.search, tool.bm25]
  }
}
