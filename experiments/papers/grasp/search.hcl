# What the arms of GRASP's study search in training, and the same over the corpora of the three test sets.

# What is searched in training are all paragraphs of the training questions, in tests those of all development questions.
corpus "train" {
  path = "${var.data}/hotpotqa/train.json"
}

corpus "hotpotqa" {
  path = "${var.data}/hotpotqa/dev.json"
}

corpus "wiki2" {
  path = "${var.data}/2wikimultihopqa/dev.json"
}

corpus "musique" {
  path = "${var.data}/musique/dev.jsonl"
}

# The paper's encoder is a language model; those are not supported yet. Hashed vectors stand in its place.
encoder "hashed" {
  kind       = "hashed"
  dimensions = 1024
}

index "train_sentences" {
  corpus  = corpus.train
  encoder = encoder.hashed
  unit    = "sentence"
  hnsw {
    m               = 32
    ef_construction = 200
    ef_search       = 128
  }
}

index "train_sentence_words" {
  corpus = corpus.train
  unit   = "sentence"
  bm25 {}
}

index "train_paragraphs" {
  corpus  = corpus.train
  encoder = encoder.hashed
  unit    = "paragraph"
  hnsw {}
}

index "train_paragraph_words" {
  corpus = corpus.train
  unit   = "paragraph"
  bm25 {}
}

# GRASP's three tools search sentences.

tool "train_semantic" {
  retriever "semantic_search" {
    index = index.train_sentences
    k     = 5
  }
}

tool "train_keyword" {
  retriever "keyword_search" {
    index = index.train_sentence_words
    k     = 5
  }
}

tool "train_read" {
  retriever "read_paragraph" { corpus = corpus.train }
}

# Its two searches when nothing can be read: they find paragraphs.

tool "train_semantic_paragraphs" {
  retriever "semantic_search" {
    index = index.train_paragraphs
    k     = 5
    level = "paragraph"
  }
}

tool "train_keyword_paragraphs" {
  retriever "keyword_search" {
    index = index.train_paragraph_words
    k     = 5
    level = "paragraph"
  }
}

# What the other methods search with, paragraphs as well.

tool "train_bm25" {
  retriever "bm25" {
    index = index.train_paragraph_words
    k     = 5
  }
}

tool "train_dense" {
  retriever "dense" {
    index = index.train_paragraphs
    k     = 5
  }
}

tool "train_hybrid" {
  retriever "hybrid" {
    dense  = index.train_paragraphs
    sparse = index.train_paragraph_words
    k      = 5
  }
}

# The same over the paragraphs of HotpotQA's development questions.

index "hotpotqa_sentences" {
  base   = index.train_sentences
  corpus = corpus.hotpotqa
}

index "hotpotqa_sentence_words" {
  base   = index.train_sentence_words
  corpus = corpus.hotpotqa
}

index "hotpotqa_paragraphs" {
  base   = index.train_paragraphs
  corpus = corpus.hotpotqa
}

index "hotpotqa_paragraph_words" {
  base   = index.train_paragraph_words
  corpus = corpus.hotpotqa
}

tool "hotpotqa_semantic" {
  base = tool.train_semantic
  retriever "semantic_search" { index = index.hotpotqa_sentences }
}

tool "hotpotqa_keyword" {
  base = tool.train_keyword
  retriever "keyword_search" { index = index.hotpotqa_sentence_words }
}

tool "hotpotqa_read" {
  base = tool.train_read
  retriever "read_paragraph" { corpus = corpus.hotpotqa }
}

tool "hotpotqa_semantic_paragraphs" {
  base = tool.train_semantic_paragraphs
  retriever "semantic_search" { index = index.hotpotqa_paragraphs }
}

tool "hotpotqa_keyword_paragraphs" {
  base = tool.train_keyword_paragraphs
  retriever "keyword_search" { index = index.hotpotqa_paragraph_words }
}

tool "hotpotqa_bm25" {
  base = tool.train_bm25
  retriever "bm25" { index = index.hotpotqa_paragraph_words }
}

tool "hotpotqa_dense" {
  base = tool.train_dense
  retriever "dense" { index = index.hotpotqa_paragraphs }
}

tool "hotpotqa_hybrid" {
  base = tool.train_hybrid
  retriever "hybrid" {
    dense  = index.hotpotqa_paragraphs
    sparse = index.hotpotqa_paragraph_words
  }
}

# The same over the paragraphs of 2WikiMultihopQA's development questions.

index "wiki2_sentences" {
  base   = index.train_sentences
  corpus = corpus.wiki2
}

index "wiki2_sentence_words" {
  base   = index.train_sentence_words
  corpus = corpus.wiki2
}

index "wiki2_paragraphs" {
  base   = index.train_paragraphs
  corpus = corpus.wiki2
}

index "wiki2_paragraph_words" {
  base   = index.train_paragraph_words
  corpus = corpus.wiki2
}

tool "wiki2_semantic" {
  base = tool.train_semantic
  retriever "semantic_search" { index = index.wiki2_sentences }
}

tool "wiki2_keyword" {
  base = tool.train_keyword
  retriever "keyword_search" { index = index.wiki2_sentence_words }
}

tool "wiki2_read" {
  base = tool.train_read
  retriever "read_paragraph" { corpus = corpus.wiki2 }
}

tool "wiki2_semantic_paragraphs" {
  base = tool.train_semantic_paragraphs
  retriever "semantic_search" { index = index.wiki2_paragraphs }
}

tool "wiki2_keyword_paragraphs" {
  base = tool.train_keyword_paragraphs
  retriever "keyword_search" { index = index.wiki2_paragraph_words }
}

tool "wiki2_bm25" {
  base = tool.train_bm25
  retriever "bm25" { index = index.wiki2_paragraph_words }
}

tool "wiki2_dense" {
  base = tool.train_dense
  retriever "dense" { index = index.wiki2_paragraphs }
}

tool "wiki2_hybrid" {
  base = tool.train_hybrid
  retriever "hybrid" {
    dense  = index.wiki2_paragraphs
    sparse = index.wiki2_paragraph_words
  }
}

# The same over the paragraphs of MuSiQue's development questions.

index "musique_sentences" {
  base   = index.train_sentences
  corpus = corpus.musique
}

index "musique_sentence_words" {
  base   = index.train_sentence_words
  corpus = corpus.musique
}

index "musique_paragraphs" {
  base   = index.train_paragraphs
  corpus = corpus.musique
}

index "musique_paragraph_words" {
  base   = index.train_paragraph_words
  corpus = corpus.musique
}

tool "musique_semantic" {
  base = tool.train_semantic
  retriever "semantic_search" { index = index.musique_sentences }
}

tool "musique_keyword" {
  base = tool.train_keyword
  retriever "keyword_search" { index = index.musique_sentence_words }
}

tool "musique_read" {
  base = tool.train_read
  retriever "read_paragraph" { corpus = corpus.musique }
}

tool "musique_semantic_paragraphs" {
  base = tool.train_semantic_paragraphs
  retriever "semantic_search" { index = index.musique_paragraphs }
}

tool "musique_keyword_paragraphs" {
  base = tool.train_keyword_paragraphs
  retriever "keyword_search" { index = index.musique_paragraph_words }
}

tool "musique_bm25" {
  base = tool.train_bm25
  retriever "bm25" { index = index.musique_paragraph_words }
}

tool "musique_dense" {
  base = tool.train_dense
  retriever "dense" { index = index.musique_paragraphs }
}

tool "musique_hybrid" {
  base = tool.train_hybrid
  retriever "hybrid" {
    dense  = index.musique_paragraphs
    sparse = index.musique_paragraph_words
  }
}
