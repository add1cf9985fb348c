package generate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/forage-rl/forage/core/sdk/text"
)

// Places for titles in what the model writes.
const (
	sourcePlace = "<SOURCE>"
	titlePlace  = "<TITLE>"
)

// Bounds of what the model may write.
const (
	mostPhraseWords = 30
	mostAnswerWords = 5
)

// leaf is the question about the last document of a chain.
type leaf struct {
	Question   string `json:"question"`
	Answer     string `json:"answer"`
	AnswerType string `json:"answer_type"`
}

// withoutThought takes the reasoning of models that write it before their answer away.
func withoutThought(answer string) string {
	if _, after, found := strings.CutLast(answer, "</think>"); found {
		answer = after
	}
	return strings.TrimSpace(answer)
}

// parsePhrase reads what the phrase prompt gave, and checks it against the titles of the link.
func parsePhrase(written, target string) (string, error) {
	phrase := withoutThought(written)
	phrase, _, _ = strings.Cut(phrase, "\n")
	phrase = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(phrase), "Phrase:"))
	phrase = strings.TrimSpace(strings.TrimRight(strings.Trim(phrase, "\"“”'`"), ". "))
	switch n := len(strings.Fields(phrase)); {
	case n == 0:
		return "", fmt.Errorf("the phrase is empty")
	case n > mostPhraseWords:
		return "", fmt.Errorf("the phrase has %d words", n)
	case strings.Count(phrase, sourcePlace) != 1:
		return "", fmt.Errorf("the phrase has %s %d times", sourcePlace, strings.Count(phrase, sourcePlace))
	}
	rest := strings.Replace(phrase, sourcePlace, " ", 1)
	if strings.ContainsAny(rest, "<>{}") {
		return "", fmt.Errorf("the phrase has marks in it")
	}
	if strings.Join(strings.Fields(rest), "") == "" {
		return "", fmt.Errorf("the phrase says nothing")
	}
	used := lowerWords(rest)
	for _, w := range contentWords(target) {
		if slices.Contains(used, w) {
			return "", fmt.Errorf("the phrase has the word %q of the title that it stands for", w)
		}
	}
	return phrase, nil
}

// parseLeaf reads what the leaf prompt gave, and checks it against the document.
func parseLeaf(written string, d Document) (leaf, error) {
	var l leaf
	written = withoutThought(written)
	start, end := strings.Index(written, "{"), strings.LastIndex(written, "}")
	if start < 0 || end < start {
		return l, fmt.Errorf("no JSON object")
	}
	if err := json.Unmarshal([]byte(written[start:end+1]), &l); err != nil {
		return l, fmt.Errorf("no JSON object: %w", err)
	}
	l.Question, l.Answer, l.AnswerType = strings.TrimSpace(l.Question), strings.TrimSpace(l.Answer), strings.ToLower(strings.TrimSpace(l.AnswerType))
	switch {
	case strings.Count(l.Question, titlePlace) != 1:
		return l, fmt.Errorf("the question has %s %d times", titlePlace, strings.Count(l.Question, titlePlace))
	case !strings.HasSuffix(l.Question, "?"):
		return l, fmt.Errorf("the question has no question mark")
	case strings.ContainsAny(strings.Replace(l.Question, titlePlace, "", 1), "<>{}\n"):
		return l, fmt.Errorf("the question has marks in it")
	case !slices.Contains([]string{"entity", "date", "number", "span"}, l.AnswerType):
		return l, fmt.Errorf("the answer's type is %q", l.AnswerType)
	case text.Normalize(l.Answer) == "":
		return l, fmt.Errorf("the answer is empty")
	case len(strings.Fields(l.Answer)) > mostAnswerWords:
		return l, fmt.Errorf("the answer has %d words", len(strings.Fields(l.Answer)))
	case !standsIn(l.Answer, d.Text):
		return l, fmt.Errorf("the answer %q does not stand in the document", l.Answer)
	case text.ExactMatch(l.Answer, d.Title):
		return l, fmt.Errorf("the answer is the document's title")
	case standsIn(strings.ToLower(d.Title), strings.ToLower(l.Question)):
		return l, fmt.Errorf("the question names its document")
	}
	return l, wordFits(l)
}

// wordFits says why a question word does not suit the answer.
func wordFits(l leaf) error {
	question := " " + strings.Join(lowerWords(strings.Replace(l.Question, titlePlace, "", 1)), " ") + " "
	has := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(question, " "+p+" ") })
	}
	digit := strings.ContainsFunc(l.Answer, unicode.IsDigit)
	words := lowerWords(l.Answer)
	month := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(months, w) })
	number := digit || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(numbers, w) })
	switch {
	case !has("who", "whose", "whom", "what", "which", "when", "where", "how", "why"):
		return fmt.Errorf("the question has no question word")
	case has("who", "whose", "whom") && (l.AnswerType == "date" || l.AnswerType == "number"):
		return fmt.Errorf("a question for who has a %s as answer", l.AnswerType)
	case (has("when", "what year", "which year", "what date", "which date") || l.AnswerType == "date") && !digit && !month:
		return fmt.Errorf("a question for a time has the answer %q", l.Answer)
	case (has("how many", "how much") || l.AnswerType == "number") && !number:
		return fmt.Errorf("a question for a number has the answer %q", l.Answer)
	}
	return nil
}

var (
	months = strings.Fields("january february march april may june july august september october november december")
	// numbers are the words that a number may begin or end with.
	numbers = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen half")
	// small are words of titles that do not tell.
	small = strings.Fields("a an and at by for from in of on or the to with")
)

// compose puts the phrases into the question, from the last document back to the first, which is named.
func compose(l leaf, phrases []string, first string) string {
	question := l.Question
	place := titlePlace
	for _, phrase := range slices.Backward(phrases) {
		question = strings.Replace(question, place, phrase, 1)
		place = sourcePlace
	}
	return strings.Replace(question, place, first, 1)
}

// checkQuestion says what is wrong with a question that was put together: it must not hold its answer, nor name a
// document after the first.
func checkQuestion(question, answer string, later []string) error {
	lower := strings.ToLower(question)
	if standsIn(strings.ToLower(answer), lower) {
		return fmt.Errorf("the answer stands in the question")
	}
	for _, title := range later {
		if standsIn(strings.ToLower(title), lower) {
			return fmt.Errorf("the question names %q", title)
		}
	}
	return nil
}

// standsIn says whether a part stands in a text between the ends of words.
func standsIn(part, whole string) bool {
	for at := 0; part != ""; {
		i := strings.Index(whole[at:], part)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(part)
		if !(cutsWord(whole, from) || cutsWord(whole, to)) {
			return true
		}
		at = from + 1
		for at < len(whole) && whole[at]&0xc0 == 0x80 {
			at++
		}
	}
	return false
}

// cutsWord says whether a word goes on over a byte offset.
func cutsWord(s string, at int) bool {
	if at == 0 || at == len(s) {
		return false
	}
	before := []rune(s[max(0, at-4):at])
	after := []rune(s[at:min(len(s), at+4)])
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) }
	return inWord(before[len(before)-1]) && inWord(after[0])
}

func lowerWords(s string) []string { return wordsOf(strings.ToLower(s)) }

// contentWords lists the words of a title that tell; all of them where none does.
func contentWords(title string) []string {
	all := lowerWords(title)
	telling := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(small, w) })
	if len(telling) == 0 {
		return all
	}
	return telling
}

// mostOtherWords is how many words a model may write around an answer that counts as the right one.
const mostOtherWords = 5

// correct says whether what a model answered is the answer: equal after the usual normalisation, or holding it with a
// few words around it.
func correct(written, answer string) bool {
	written = withoutThought(written)
	if _, after, found := strings.CutLast(written, "Answer:"); found {
		written = after
	}
	written, _, _ = strings.Cut(strings.TrimSpace(written), "\n")
	if text.ExactMatch(written, answer) {
		return true
	}
	said, gold := text.Normalize(written), text.Normalize(answer)
	return gold != "" && standsIn(gold, said) && len(strings.Fields(said)) <= len(strings.Fields(gold))+mostOtherWords
}
