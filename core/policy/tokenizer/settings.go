package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// settings is what the files beside tokenizer.json say.
type settings struct {
	bos, pad  optionalID
	eos       []int32
	template  string
	variables map[string]string // bos_token, eos_token, ... as a chat template sees them
}

type optionalID struct {
	id  int32
	set bool
}

func (o optionalID) get() (int32, bool) { return o.id, o.set }

// tokenJSON is a token given as a string, as an object with content, or as null.
type tokenJSON struct{ content string }

func (t *tokenJSON) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '{' {
		var object struct {
			Content string `json:"content"`
		}
		err := json.UnmarshalDecode(d, &object)
		t.content = object.Content
		return err
	}
	return json.UnmarshalDecode(d, &t.content)
}

// idsJSON is one id, a list of ids, or null.
type idsJSON []int32

func (t *idsJSON) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '[' {
		return json.UnmarshalDecode(d, (*[]int32)(t))
	}
	var one *int32
	err := json.UnmarshalDecode(d, &one)
	if one != nil {
		*t = idsJSON{*one}
	}
	return err
}

type templateJSON []struct {
	Name     string `json:"name"`
	Template string `json:"template"`
}

// readInto reads a JSON file where present.
func readInto(path string, into any) (present bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s: %w", withLine(path, data, err), err)
	}
	return true, nil
}

func readSettings(dir string, t *Tokenizer) (settings, error) {
	s := settings{variables: make(map[string]string)}
	names := []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}
	// A token named in tokenizer_config.json counts before special_tokens_map.json, even when it is null there.
	known := make(map[string]bool)
	for _, file := range []string{"tokenizer_config.json", "special_tokens_map.json"} {
		path := filepath.Join(dir, file)
		var values map[string]jsontext.Value
		if _, err := readInto(path, &values); err != nil {
			return settings{}, err
		}
		for _, name := range names {
			raw, ok := values[name]
			if !ok || known[name] {
				continue
			}
			known[name] = true
			var token tokenJSON
			if err := json.Unmarshal(raw, &token); err != nil {
				return settings{}, fmt.Errorf("%s: %s: expected a token: %w", path, name, err)
			}
			if token.content != "" {
				s.variables[name] = token.content
			}
		}
		if raw, ok := values["chat_template"]; ok && s.template == "" {
			template, err := templateOf(raw)
			if err != nil {
				return settings{}, fmt.Errorf("%s: chat_template: %w", path, err)
			}
			s.template = template
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		s.template = string(data)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return settings{}, err
	}
	return s, s.setIDs(dir, t, known)
}

// templateOf reads a chat template that is one string, or a list of named ones of which "default" counts.
func templateOf(raw jsontext.Value) (string, error) {
	if raw.Kind() != '[' {
		var one *string
		err := json.Unmarshal(raw, &one)
		if one == nil {
			return "", err
		}
		return *one, err
	}
	var many templateJSON
	if err := json.Unmarshal(raw, &many); err != nil {
		return "", err
	}
	for _, m := range many {
		if m.Name == "default" {
			return m.Template, nil
		}
	}
	return "", errors.New(`none of the named templates is called "default"`)
}

func (s *settings) setIDs(dir string, t *Tokenizer, known map[string]bool) error {
	type idsFile struct {
		BOS *int32  `json:"bos_token_id"`
		EOS idsJSON `json:"eos_token_id"`
		Pad *int32  `json:"pad_token_id"`
	}
	var ids idsFile
	path := filepath.Join(dir, "generation_config.json")
	present, err := readInto(path, &ids)
	if err != nil {
		return err
	}
	if !present {
		path = filepath.Join(dir, "config.json")
		if _, err := readInto(path, &ids); err != nil {
			return err
		}
	}
	token := func(name string) (optionalID, error) {
		content, ok := s.variables[name]
		if !ok {
			return optionalID{}, nil
		}
		id, ok := t.ids[content]
		if !ok {
			return optionalID{}, fmt.Errorf("%s: %s %q is not in the vocabulary", dir, name, content)
		}
		return optionalID{id, true}, nil
	}
	check := func(name string, id int32) error {
		if t.Token(id) == "" {
			return fmt.Errorf("%s: %s %d is not in the vocabulary of %d tokens", path, name, id, t.VocabSize())
		}
		return nil
	}
	if s.bos, err = token("bos_token"); err != nil {
		return err
	}
	if s.pad, err = token("pad_token"); err != nil {
		return err
	}
	eos, err := token("eos_token")
	if err != nil {
		return err
	}
	if eos.set {
		s.eos = append(s.eos, eos.id)
	}
	for _, id := range ids.EOS {
		if err := check("eos_token_id", id); err != nil {
			return err
		}
		if !slices.Contains(s.eos, id) {
			s.eos = append(s.eos, id)
		}
	}
	// The model's own ids count where the tokenizer's files say nothing about the token.
	for _, one := range []struct {
		name string
		id   *int32
		into *optionalID
	}{{"bos_token", ids.BOS, &s.bos}, {"pad_token", ids.Pad, &s.pad}} {
		if known[one.name] || one.id == nil || *one.id < 0 {
			continue
		}
		if err := check(one.name+"_id", *one.id); err != nil {
			return err
		}
		*one.into = optionalID{*one.id, true}
	}
	return nil
}

// computeDigest hashes the parts of the file in a canonical order, then the settings.
func (t *Tokenizer) computeDigest(f fileJSON) string {
	var b bytes.Buffer
	write := func(v any) {
		// The values are plain structs of strings, numbers and lists, which always marshal.
		data, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			panic(fmt.Sprintf("tokenizer digest: %v", err))
		}
		b.Write(data)
		b.WriteByte('\n')
	}
	write(f.Normalizer)
	write(f.PreTokenizer)
	write(f.Decoder)
	write(f.Model)
	slices.SortFunc(f.AddedTokens, func(a, b addedToken) int { return int(a.ID) - int(b.ID) })
	write(f.AddedTokens)
	write([]any{t.settings.bos.id, t.settings.bos.set, t.settings.pad.id, t.settings.pad.set, t.settings.eos, t.settings.template, t.settings.variables})
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}
