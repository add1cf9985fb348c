package generate

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed prompts/*.txt
var bundled embed.FS

// promptNames are the prompts, each a file NAME.txt.
var promptNames = [...]string{"phrase", "leaf", "closed_book", "open_book"}

// Prompts are the texts that a language model is asked by. They are worded by this project: the paper's are not given.
type Prompts struct {
	byName map[string]*template.Template
	digest string
}

// Document is a document as a prompt shows it.
type Document struct{ Title, Text string }

// promptData is what the prompts may show: phrase has Source, Target and Text, leaf has Title and Text, closed_book has
// Question, open_book has Question and Documents.
type promptData struct {
	Source, Target, Title, Text, Question string
	Documents                             []Document
}

// LoadPrompts gives the bundled prompts, with those in their places that a folder has: phrase.txt, leaf.txt,
// closed_book.txt, open_book.txt, in the language of Go's text/template. dir "" means none.
func LoadPrompts(dir string) (*Prompts, error) {
	texts := map[string]string{}
	for _, name := range promptNames {
		text, err := bundled.ReadFile("prompts/" + name + ".txt")
		if err != nil {
			return nil, err
		}
		texts[name] = string(text)
	}
	if dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("prompts: %s holds none of %s.txt", dir, strings.Join(promptNames[:], ".txt, "))
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txt")
			if !slices.Contains(promptNames[:], name) {
				return nil, fmt.Errorf("prompts: %s is none of %s.txt", file, strings.Join(promptNames[:], ".txt, "))
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("prompts: %w", err)
			}
			texts[name] = string(text)
		}
	}
	p := &Prompts{byName: map[string]*template.Template{}}
	sum := sha256.New()
	for _, name := range promptNames {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(texts[name]), texts[name])
		parsed, err := template.New(name + ".txt").Parse(texts[name])
		if err != nil {
			return nil, fmt.Errorf("prompts: %w", err)
		}
		if err := parsed.Execute(io.Discard, promptData{Documents: []Document{{}}}); err != nil {
			return nil, fmt.Errorf("prompts: %w", err)
		}
		p.byName[name] = parsed
	}
	p.digest = hex.EncodeToString(sum.Sum(nil))[:16]
	return p, nil
}

// SavePrompts writes the bundled prompts into a folder, to be changed there. Files that exist are kept and an error.
func SavePrompts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("prompts: %w", err)
	}
	for _, name := range promptNames {
		text, err := bundled.ReadFile("prompts/" + name + ".txt")
		if err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(dir, name+".txt"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("prompts: %s is there already; remove it, or give another folder", filepath.Join(dir, name+".txt"))
		}
		if err != nil {
			return fmt.Errorf("prompts: %w", err)
		}
		_, err = file.Write(text)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("prompts: %w", err)
		}
	}
	return nil
}

func (p *Prompts) render(name string, data promptData) (string, error) {
	var out bytes.Buffer
	if err := p.byName[name].Execute(&out, data); err != nil {
		return "", fmt.Errorf("prompts: %w", err)
	}
	return strings.TrimSpace(out.String()), nil
}
