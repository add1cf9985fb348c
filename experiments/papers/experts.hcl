# Questions with expert transcripts, for the studies that learn from them.

variable "experts" {
  type        = string
  default     = "hotpotqa/experts.jsonl"
  description = "questions with expert transcripts (gold_response), a file in data"
}

dataset "experts" {
  path           = "${var.data}/${var.experts}"
  max_unresolved = 1 # the experts searched another copy of Wikipedia: their gold documents may be missing here
}
