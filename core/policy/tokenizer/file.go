package tokenizer

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
)

// maxID is beyond the ids of any vocabulary.
const maxID = 1 << 22

// fileJSON is tokenizer.json. Truncation, padding and the post-processor act on whole model inputs; this package adds
// nothing and cuts nothing, so they are not read.
type fileJSON struct {
	AddedTokens  []addedToken   `json:"added_tokens"`
	Normalizer   *componentJSON `json:"normalizer"`
	PreTokenizer *componentJSON `json:"pre_tokenizer"`
	Decoder      *componentJSON `json:"decoder"`
	Model        modelJSON      `json:"model"`
}

// addedToken is a string that is taken out of trusted text before anything else happens to it.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space at its left with it
	RStrip     bool   `json:"rstrip"`      // takes the white space at its right with it
	Normalized bool   `json:"normalized"`  // looked for in the normalised text, not in the raw one
	Special    bool   `json:"special"`     // a control token
}

// componentJSON is a normalizer, pre-tokenizer or decoder; which fields mean something depends on the type.
type componentJSON struct {
	Type             string          `json:"type"`
	Normalizers      []componentJSON `json:"normalizers"`
	PreTokenizers    []componentJSON `json:"pretokenizers"`
	Pattern          *patternJSON    `json:"pattern"`
	Behavior         string          `json:"behavior"`
	IndividualDigits bool            `json:"individual_digits"`
	AddPrefixSpace   *bool           `json:"add_prefix_space"`
	UseRegex         *bool           `json:"use_regex"`
}

type patternJSON struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

type modelJSON struct {
	Type                    string           `json:"type"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  []mergeJSON      `json:"merges"`
	UnkToken                *string          `json:"unk_token"`
	Dropout                 *float64         `json:"dropout"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
}

// mergeJSON is "left right" in older files and ["left", "right"] in newer ones.
type mergeJSON [2]string

func (m *mergeJSON) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		var pair []string
		if err := json.UnmarshalDecode(d, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("a merge must have two parts, got %q", pair)
		}
		*m = mergeJSON(pair)
		return nil
	}
	var line string
	if err := json.UnmarshalDecode(d, &line); err != nil {
		return err
	}
	left, right, ok := strings.Cut(line, " ")
	if !ok || strings.Contains(right, " ") {
		return fmt.Errorf("a merge must have two parts, got %q", line)
	}
	*m = mergeJSON{left, right}
	return nil
}

// parseFile reads tokenizer.json; name is for errors.
func parseFile(name string, data []byte) (fileJSON, error) {
	var f fileJSON
	// Version 2 of the package refuses a token that occurs twice in the vocabulary.
	if err := json.Unmarshal(data, &f); err != nil {
		return fileJSON{}, fmt.Errorf("%s: not a valid tokenizer file: %w", withLine(name, data, err), err)
	}
	return f, nil
}

// withLine is the file's name, with the line of a JSON error where the error knows it.
func withLine(name string, data []byte, err error) string {
	offset := int64(-1)
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = e.ByteOffset
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		offset = e.ByteOffset
	}
	if offset < 0 || offset > int64(len(data)) {
		return name
	}
	return fmt.Sprintf("%s:%d", name, 1+strings.Count(string(data[:offset]), "\n"))
}
