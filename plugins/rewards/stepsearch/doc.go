// Package stepsearch is the rewards of StepSearch (arXiv:2505.15107), one plugin each so that an experiment combines
// them: the answer with the gate on finished responses, the match of queries with search keywords, and per search the
// information gained minus the share of documents seen before.
//
// A search is a turn of the episode: its reward belongs to that turn whatever the text around it looks like. The
// release finds searches in the decoded text instead, where one match may swallow several; see [Split] for what is
// kept of its reading of documents.
//
// The package knows nothing of advantages or of tokens.
package stepsearch
