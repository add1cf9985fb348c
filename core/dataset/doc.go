// Package dataset owns the way from files of questions, or from the embedded world, to a numbered set of questions:
// formats, identifiers, limits and random draws, experts, the digest that names what was read, and the resolution of
// gold documents against a corpus. It must not know what the questions are used for.
//
// # What a question keeps
//
//   - Text and answers are trimmed at both ends; what was trimmed stays in the metadata as raw_question and
//     raw_answers. Inner white space, case and Unicode form are untouched.
//   - Booleans as answers become "yes" and "no".
//   - A record without an identifier gets "<file name without extension>-<number>", counted from 0.
//   - Gold documents are the distinct supporting titles in order; MuSiQue's are its supporting paragraphs, one each.
//     Where the record holds their text, the metadata's support_docs lists {title, paragraph_text} in the same order.
//   - Search keywords of StepSearch's records (sub_searchs, or search_keys beside the answers) are the metadata's
//     search_keys: a list of alternative queries for each sub-question.
//   - All other fields pass into the metadata, but for contexts and prompts, which belong to corpora and agents. The
//     objects metadata and extra_info are merged in, the record's own fields winning.
package dataset
