// Package retrieval finds the units of a corpus for queries: it joins corpus, encoder and index, makes index artefacts
// once, addressed by the digest of all that decides them, and gives hits with ids and texts. It must not know policies,
// episodes, plugins or the language of experiments.
package retrieval
