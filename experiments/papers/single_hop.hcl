# Questions of one hop, for the studies that train or test on them, and the tests as in world.hcl.

dataset "nq_train" {
  path = "${var.data}/nq/train.jsonl"
}

dataset "nq" {
  path = "${var.data}/nq/test.jsonl"
}

dataset "triviaqa" {
  path = "${var.data}/triviaqa/test.jsonl"
}

dataset "popqa" {
  path = "${var.data}/popqa/test.jsonl"
}

locals {
  one_hop = ["nq", "triviaqa", "popqa"]
}

set "one_hop" {
  evaluate "nq" {
    dataset  = dataset.nq
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
  evaluate "triviaqa" {
    dataset  = dataset.triviaqa
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
  evaluate "popqa" {
    dataset  = dataset.popqa
    tools    = { search = tool.search }
    sampling = { temperature = local.test_temperature }
  }
}
