package tokenizer

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// splitter cuts text into pieces; together they are the text, but for what WhitespaceSplit drops.
type splitter func(text string) iter.Seq[string]

// preTokenizer is a chain of splitters. byteLevel says that the model works on bytes.
type preTokenizer struct {
	chain     []splitter
	byteLevel bool
}

// gpt2Pattern is the one that ByteLevel uses by itself; scanGPT2 is the same by hand.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func buildPreTokenizer(c *componentJSON) (preTokenizer, error) {
	var p preTokenizer
	if c == nil {
		return p, errors.New("pre_tokenizer is missing (supported: Sequence, Split, Digits, ByteLevel, WhitespaceSplit)")
	}
	return p, p.add(*c)
}

func (p *preTokenizer) add(c componentJSON) error {
	if p.byteLevel {
		return fmt.Errorf("pre_tokenizer %q behind ByteLevel is not supported: ByteLevel must be the last", c.Type)
	}
	switch c.Type {
	case "Sequence":
		for _, one := range c.PreTokenizers {
			if err := p.add(one); err != nil {
				return err
			}
		}
	case "Split":
		return p.addSplit(c)
	case "Digits":
		p.chain = append(p.chain, splitDigits(c.IndividualDigits))
	case "ByteLevel":
		// A missing add_prefix_space is true in the reference implementation.
		if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
			return errors.New("pre_tokenizer ByteLevel with add_prefix_space = true is not supported: it would change the text (supported: false)")
		}
		if c.UseRegex == nil || *c.UseRegex {
			p.chain = append(p.chain, scanGPT2)
		}
		p.byteLevel = true
	case "WhitespaceSplit":
		p.chain = append(p.chain, strings.FieldsSeq)
	default:
		return fmt.Errorf("pre_tokenizer %q is not supported (supported: Sequence, Split, Digits, ByteLevel, WhitespaceSplit)", c.Type)
	}
	return nil
}

func (p *preTokenizer) addSplit(c componentJSON) error {
	if c.Behavior != "Isolated" {
		return fmt.Errorf("pre_tokenizer Split with behavior %q is not supported (supported: Isolated)", c.Behavior)
	}
	switch {
	case c.Pattern != nil && c.Pattern.Regex != nil && *c.Pattern.Regex == gpt2Pattern:
		p.chain = append(p.chain, scanGPT2)
	case c.Pattern != nil && c.Pattern.Regex != nil:
		re, err := regexp2.Compile(*c.Pattern.Regex, regexp2.None)
		if err != nil {
			return fmt.Errorf("pre_tokenizer Split: pattern %q: %w", *c.Pattern.Regex, err)
		}
		p.chain = append(p.chain, splitRegex(re))
	case c.Pattern != nil && c.Pattern.String != nil && *c.Pattern.String != "":
		p.chain = append(p.chain, splitString(*c.Pattern.String))
	default:
		return errors.New("pre_tokenizer Split needs a pattern with Regex or String")
	}
	return nil
}

// words gives the pieces that the model sees.
func (p *preTokenizer) words(text string) iter.Seq[string] { return chained(p.chain, text) }

func chained(chain []splitter, text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if text == "" {
			return
		}
		if len(chain) == 0 {
			yield(text)
			return
		}
		for piece := range chain[0](text) {
			for word := range chained(chain[1:], piece) {
				if !yield(word) {
					return
				}
			}
		}
	}
}

// splitRegex isolates the matches. The engine runs on runes: its string mode counts in runes too, but converts the
// whole text for every match.
func splitRegex(re *regexp2.Regexp) splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			runes := []rune(text)
			at, done := 0, 0 // in bytes and in runes
			advance := func(to int) string {
				from := at
				for ; done < to; done++ {
					at += utf8.RuneLen(runes[done])
				}
				return text[from:at]
			}
			// Errors come from match timeouts only, and none is set.
			for m, err := re.FindRunesMatch(runes); m != nil && err == nil; m, err = re.FindNextMatch(m) {
				if m.Length == 0 {
					continue
				}
				if m.Index > done && !yield(advance(m.Index)) {
					return
				}
				if !yield(advance(m.Index + m.Length)) {
					return
				}
			}
			if done < len(runes) {
				yield(advance(len(runes)))
			}
		}
	}
}

func splitString(pattern string) splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			for text != "" {
				i := strings.Index(text, pattern)
				if i < 0 {
					yield(text)
					return
				}
				if i > 0 && !yield(text[:i]) || !yield(text[i:i+len(pattern)]) {
					return
				}
				text = text[i+len(pattern):]
			}
		}
	}
}

// splitDigits isolates numeric characters (category N), each alone or run by run.
func splitDigits(individual bool) splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			for text != "" {
				r, n := utf8.DecodeRuneInString(text)
				number := unicode.IsNumber(r)
				if !number || !individual {
					for n < len(text) {
						next, size := utf8.DecodeRuneInString(text[n:])
						if unicode.IsNumber(next) != number {
							break
						}
						n += size
					}
				}
				if !yield(text[:n]) {
					return
				}
				text = text[n:]
			}
		}
	}
}

// scanGPT2 cuts as gpt2Pattern does.
func scanGPT2(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := gpt2Length(text)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// gpt2Length is the length of the match of gpt2Pattern at the start of text, which is not empty.
func gpt2Length(text string) int {
	if text[0] == '\'' {
		for _, suffix := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
			if strings.HasPrefix(text[1:], suffix) {
				return 1 + len(suffix)
			}
		}
	}
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	if start < len(text) {
		first, size := utf8.DecodeRuneInString(text[start:])
		if kind := kindOf(first); kind != space {
			n := start + size
			for n < len(text) {
				r, size := utf8.DecodeRuneInString(text[n:])
				if kindOf(r) != kind {
					break
				}
				n += size
			}
			return n
		}
	}
	// White space: all of it at the end of the text, else all but its last character, which belongs to what follows.
	n, last := 0, 0
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if kindOf(r) != space {
			if n > last {
				return n - last
			}
			return n
		}
		n, last = n+size, size
	}
	return n
}

type kind uint8

const (
	other kind = iota
	letter
	number
	space
)

func kindOf(r rune) kind {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}
