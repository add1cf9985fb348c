// Package generate makes multi-hop questions out of a corpus whose documents link to each other, for training where no
// questions are at hand ("Corpus-graph evidence", David-GRPO v5, section 4.1 and appendix E.6).
//
// A chain of documents is a walk along links. A language model words, for each link, a phrase that leads from the one
// document to the other, and for the last document a question with its answer; put into one another they are a question
// that needs all documents of the chain. Five filters keep the questions that are sound. Every chain's fate is recorded,
// so that work goes on where it stopped.
//
// It owns the link graph, the sampling of chains, the prompts, the filters and the files of the work. It must not know
// how texts are written (see [Writer]) or found (see [Search]).
package generate
