# Questions of one hop, for the studies that use them.

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
