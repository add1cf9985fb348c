// Package corpus owns the texts that are searched: documents made of paragraphs made of sentences, with ids that stay
// the same from run to run, and a digest of it all. It reads the usual file formats and keeps big corpora in a memory
// map. It must not know how texts are found.
//
// # Identifiers
//
//   - A document's id is the one its file gives. Sources that name a document only by its title (HotpotQA,
//     2WikiMultihopQA, MuSiQue and files made from them) give it the title as id; where a title heads several texts,
//     each is "title~" and eight hexadecimal digits of its content's SHA-256, whatever the order of the sources. The
//     same title with the same text is one document.
//   - A paragraph's id is the document's, or "<document>#p<i>", i from 0, where the document has several.
//   - A sentence's id is "<paragraph>.s<i>", i from 0, counting empty sentences of the source, so that it agrees with
//     the sent_id of HotpotQA's supporting facts. Empty sentences are no units.
package corpus
