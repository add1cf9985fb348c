// Package minihop generates the embedded world: a small linked corpus, multi-hop questions with gold answers and gold
// documents, scripted expert episodes, the word tokenizer and the shape of the tiny policy that can learn it.
//
// Everything is a function of a seed. The names of the entities and how popular they are is the same in all worlds
// (that is what a policy can know beforehand); the facts differ from world to world (that is what it has to look up).
//
// The package owns the world's law, the protocol text of its experts, what they observe ([World.HashedSearch] and its
// like), the vocabulary and the mixtures of the pre-training stream. It must not know which retriever an experiment uses
// (a [Search] is handed to whoever writes an episode), how episodes are run, or how a model is computed.
package minihop
