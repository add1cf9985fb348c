// Package text owns the string rules that answer metrics, rewards and title matching share: Unicode lower case,
// white space, words and punctuation as the published evaluation scripts (all Python) define them, the SQuAD
// normalisation of answers, and exact match and F1 on normalised answers.
//
// The rules differ from Go's standard library where it matters to a metric: a word is made of letters, numbers and
// underscores of every script but not of combining marks, U+001C..U+001F are white space, lower case is the full
// (not the simple) Unicode mapping, and only ASCII punctuation is dropped. Nothing is folded or composed: a
// full-width digit stays different from an ASCII one.
//
// The package knows nothing of datasets, episodes or rewards.
package text
