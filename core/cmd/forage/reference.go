package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/forage-rl/forage/core/sdk/schema"
)

// reference lays a schema out: as text for a terminal or as Markdown for a page.
type reference interface {
	attributes(w io.Writer, list []schema.Attribute)
	block(w io.Writer, path string, b schema.Block)
}

// writeSchema writes the attributes of a schema, then those of its nested blocks, depth first.
func writeSchema(w io.Writer, s schema.Schema, r reference) { writeNested(w, "", s, r) }

func writeNested(w io.Writer, path string, s schema.Schema, r reference) {
	if len(s.Attributes) > 0 {
		r.attributes(w, s.Attributes)
	} else if path == "" && len(s.Blocks) == 0 {
		fmt.Fprintln(w, "It takes no attributes.")
	}
	for _, b := range s.Blocks {
		inner := strings.TrimPrefix(path+"."+b.Type, ".")
		r.block(w, inner, b)
		writeNested(w, inner, b.Schema, r)
	}
}

// valueText is a default as it is written in HCL.
func valueText(v any) string {
	if v == nil {
		return ""
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // tags are to be read as they are written
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// allowed is the range of an attribute in words, "" for none.
func allowed(a schema.Attribute) string {
	switch {
	case len(a.Enum) > 0:
		return strings.Join(a.Enum, " | ")
	case a.Min != nil && a.Max != nil:
		return fmt.Sprintf("%s to %s", valueText(*a.Min), valueText(*a.Max))
	case a.Min != nil:
		return fmt.Sprintf("from %s", valueText(*a.Min))
	case a.Max != nil:
		return fmt.Sprintf("up to %s", valueText(*a.Max))
	}
	return ""
}

func defaultText(a schema.Attribute) string {
	switch {
	case a.Required:
		return "required"
	case a.Default == nil:
		return "none"
	}
	return valueText(a.Default)
}

type textReference struct{}

func (textReference) attributes(out io.Writer, list []schema.Attribute) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ATTRIBUTE\tTYPE\tDEFAULT\tRANGE\tDESCRIPTION")
	for _, a := range list {
		description := a.Description
		if a.Source != "" {
			description += " [" + a.Source + "]"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", a.Name, a.Type, defaultText(a), allowed(a), description)
	}
	w.Flush()
}

func (textReference) block(w io.Writer, path string, b schema.Block) {
	fmt.Fprintf(w, "\nblock %s%s: %s\n", path, blockNotes(b), b.Description)
}

func blockNotes(b schema.Block) string {
	var notes []string
	if b.Labels > 0 {
		notes = append(notes, fmt.Sprintf("%d labels", b.Labels))
	}
	if !b.Single {
		notes = append(notes, "any number")
	}
	if b.Required {
		notes = append(notes, "required")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, ", ") + ")"
}

type markdownReference struct{}

func (markdownReference) attributes(w io.Writer, list []schema.Attribute) {
	fmt.Fprintf(w, "| attribute | type | default | range | description | source |\n|---|---|---|---|---|---|\n")
	for _, a := range list {
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | %s |\n",
			a.Name, a.Type, code(a), cell(allowed(a)), cell(a.Description), cell(a.Source))
	}
	fmt.Fprintln(w)
}

func (markdownReference) block(w io.Writer, path string, b schema.Block) {
	fmt.Fprintf(w, "Block `%s`%s: %s\n\n", path, blockNotes(b), b.Description)
}

// code is a default as code, where tags stay what they are.
func code(a schema.Attribute) string {
	text := defaultText(a)
	if a.Default == nil || a.Required {
		return cell(text)
	}
	return "`" + strings.ReplaceAll(text, "|", "\\|") + "`"
}

// cell makes a text fit for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", ">", "&gt;").Replace(text)
}
