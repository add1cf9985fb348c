package minihop

import "slices"

// Tags of the protocol; each is one special token.
const (
	TagQuestion       = "<q>"
	TagQuestionEnd    = "</q>"
	TagThink          = "<think>"
	TagThinkEnd       = "</think>"
	TagSearch         = "<search>"
	TagSearchEnd      = "</search>"
	TagInformation    = "<information>"
	TagInformationEnd = "</information>"
	TagAnswer         = "<answer>"
	TagAnswerEnd      = "</answer>"
	TagEOS            = "<eos>"
	TagPad            = "<pad>"
)

// Words that the agent loop writes between the tags of an observation.
const (
	WordDone    = "done"    // the thought before an answer
	WordLimit   = "limit"   // the search budget is used up
	WordInvalid = "invalid" // the action could not be understood; also what words outside the vocabulary become
)

// Tags lists the 12 tags.
func Tags() []string {
	return []string{TagQuestion, TagQuestionEnd, TagThink, TagThinkEnd, TagSearch, TagSearchEnd, TagInformation,
		TagInformationEnd, TagAnswer, TagAnswerEnd, TagEOS, TagPad}
}

func functionWords() []string {
	return []string{"(", ")", "is", ".", "what", "'s", "?", WordDone, WordLimit, WordInvalid}
}

// StopWords lists the tags and the 10 function words: what a retriever drops.
func StopWords() []string { return append(Tags(), functionWords()...) }

// plainWords lists the words that are no tags.
func plainWords(twoTokenNames bool) []string {
	words := functionWords()
	for _, r := range relations() {
		words = append(words, r.name)
	}
	for k := range kinds {
		words = append(words, firstNames(k)...)
	}
	if twoTokenNames {
		words = append(words, secondNames()...)
	}
	return words
}

// kind is the type of an entity.
type kind int

const (
	person kind = iota
	city
	country
	company
	book
	language
	currency
	kinds
)

func (k kind) String() string {
	return [...]string{"person", "city", "country", "company", "book", "language", "currency"}[k]
}

// law is how many entities of a kind there are and the Zipf exponent of their popularity: entity i, counted from 0, is
// the object of a fact with probability proportional to (i+1)^-exponent.
func (k kind) law() (count int, exponent float64) {
	switch k {
	case person:
		return 60, .6
	case city, company:
		return 24, .8
	case book:
		return 40, 0
	default:
		return 8, 1.3
	}
}

// documented says whether entities of the kind have a document.
func (k kind) documented() bool { return k < language }

type relation struct {
	name     string
	from, to kind
}

func relations() []relation {
	return []relation{
		{"author", book, person}, {"publisher", book, company}, {"setting", book, city},
		{"birthplace", person, city}, {"employer", person, company}, {"spouse", person, person},
		{"headquarters", company, city}, {"founder", company, person},
		{"mayor", city, person}, {"country", city, country},
		{"capital", country, city}, {"language", country, language}, {"currency", country, currency},
	}
}

// chains lists the sequences of relations that make a question of the given number of hops: each starts where the one
// before it ends, and none occurs twice. They are indices into relations(), in lexical order.
func chains(hops int) [][]int {
	rel := relations()
	all := [][]int{{}}
	for range hops {
		var next [][]int
		for _, c := range all {
			for r := range rel {
				if len(c) > 0 && (rel[c[len(c)-1]].to != rel[r].from || slices.Contains(c, r)) {
					continue
				}
				next = append(next, append(slices.Clone(c), r))
			}
		}
		all = next
	}
	return all
}

// firstNames are the invented names of a kind, one token each, most popular first.
func firstNames(k kind) []string {
	switch k {
	case person:
		return joined([]string{"Al", "Be", "Cor", "Dan", "Ed", "Fa", "Gil", "Hol", "Ire", "Jor", "Kas", "Lu"}, []string{"ric", "dan", "mer", "tha", "vin"})
	case city:
		return joined([]string{"Bor", "Cald", "Drav", "Esk", "Farn", "Gron", "Hest", "Ith"}, []string{"ford", "ville", "burg"})
	case company:
		return joined([]string{"Acto", "Bexi", "Cyra", "Dyna", "Ensi", "Fluo", "Gyro", "Heli"}, []string{"corp", "tech", "works"})
	case book:
		return joined([]string{"Ash", "Brine", "Cinder", "Dusk", "Ember", "Frost", "Glass", "Haze"}, []string{"fall", "song", "light", "gate", "tide"})
	case country:
		return []string{"Avaria", "Belmark", "Corland", "Dunovia", "Estany", "Froland", "Galdia", "Hestria"}
	case language:
		return []string{"Ostric", "Pellan", "Quorish", "Rhunic", "Sarvese", "Tolmic", "Umbran", "Velsh"}
	default:
		return []string{"Zarin", "Yoltar", "Wendel", "Vesk", "Tharn", "Sulmi", "Rupan", "Quell"}
	}
}

// secondNames are shared by all kinds, so that a wrong two-token name may be half right.
func secondNames() []string {
	return []string{"North", "South", "East", "West", "Elder", "Minor", "Prime", "Rex", "Ultra", "Vale", "Crest", "Moor"}
}

// joined puts every ending on every stem, the stem changing fastest.
func joined(stems, endings []string) []string {
	names := make([]string, 0, len(stems)*len(endings))
	for _, e := range endings {
		for _, s := range stems {
			names = append(names, s+e)
		}
	}
	return names
}
