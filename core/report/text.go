package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
)

// Text writes the report for a terminal of the given width in columns; 0 means unlimited. A table that is too wide is
// continued below with its first column repeated.
func (r *Report) Text(w io.Writer, width int) error { return r.document().text(w, width) }

// Markdown writes the report as GitHub-flavoured Markdown.
func (r *Report) Markdown(w io.Writer) error { return r.document().markdown(w) }

// CSV writes the numbers of the report to 12 digits, one a line: table, evaluation, cell, seed, quantity, value.
func (r *Report) CSV(w io.Writer) error { return r.document().csv(w) }

func (d document) text(w io.Writer, width int) error {
	var b strings.Builder
	title := printable(d.title)
	b.WriteString(title + "\n" + strings.Repeat("=", uniseg.StringWidth(title)) + "\n")
	for _, p := range d.lead {
		wrap(&b, "", printable(p), width)
	}
	d.remarks(func(kind string, items []string) {
		b.WriteString("\n" + kind + "\n")
		for _, s := range items {
			wrap(&b, "  ! ", printable(s), width)
		}
	})
	for _, t := range d.tables {
		b.WriteString("\n")
		title := printable(t.title)
		wrap(&b, "", title, width)
		b.WriteString(strings.Repeat("-", limit(uniseg.StringWidth(title), width)) + "\n")
		t.text(&b, width)
		if t.caption != "" {
			b.WriteString("\n")
			wrap(&b, "", printable(t.caption), width)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d document) remarks(do func(kind string, items []string)) {
	if len(d.warnings) > 0 {
		do("Warnings", d.warnings)
	}
	if len(d.notes) > 0 {
		do("Notes", d.notes)
	}
}

func limit(n, width int) int {
	if width > 0 {
		return min(n, width)
	}
	return n
}

// minFirst is the width below which the first column is not cut.
const minFirst = 12

func (t table) text(b *strings.Builder, width int) {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = uniseg.StringWidth(printable(c.name))
		for _, row := range t.rows {
			widths[i] = max(widths[i], uniseg.StringWidth(printable(row[i])))
		}
	}
	if width > 0 && len(widths) > 1 {
		// The first column stands beside each of the others.
		widths[0] = min(widths[0], max(minFirst, width-2-slices.Max(widths[1:])))
	}
	for i, part := range splitColumns(widths, width) {
		if i > 0 {
			b.WriteString("\n")
		}
		line := func(cell func(i int) string) {
			var parts []string
			for _, i := range part {
				text := shorten(cell(i), widths[i])
				pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(text))
				if t.columns[i].number {
					parts = append(parts, pad+text)
				} else {
					parts = append(parts, text+pad)
				}
			}
			b.WriteString(strings.TrimRight(strings.Join(parts, "  "), " ") + "\n")
		}
		line(func(i int) string { return t.columns[i].name })
		for _, row := range t.rows {
			line(func(i int) string { return row[i] })
		}
	}
}

// splitColumns groups the columns so that each group, led by the first column, fits the width where it can.
func splitColumns(widths []int, width int) [][]int {
	part, used := []int{0}, widths[0]
	var parts [][]int
	for i := 1; i < len(widths); i++ {
		if width > 0 && len(part) > 1 && used+2+widths[i] > width {
			parts = append(parts, part)
			part, used = []int{0}, widths[0]
		}
		part, used = append(part, i), used+2+widths[i]
	}
	return append(parts, part)
}

// wrap writes text in lines of at most width columns, the first led by lead, the others indented as far.
func wrap(b *strings.Builder, lead, text string, width int) {
	indent := strings.Repeat(" ", uniseg.StringWidth(lead))
	line := lead
	for i, word := range strings.Fields(text) {
		if i > 0 && width > 0 && uniseg.StringWidth(line)+1+uniseg.StringWidth(word) > width {
			b.WriteString(line + "\n")
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}

func (d document) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", escapeMarkdown(d.title))
	for _, p := range d.lead {
		fmt.Fprintf(&b, "\n%s\n", escapeMarkdown(p))
	}
	d.remarks(func(kind string, items []string) {
		fmt.Fprintf(&b, "\n**%s**\n\n", kind)
		for _, s := range items {
			fmt.Fprintf(&b, "- %s\n", escapeMarkdown(s))
		}
	})
	for _, t := range d.tables {
		fmt.Fprintf(&b, "\n## %s\n\n", escapeMarkdown(t.title))
		for _, c := range t.columns {
			b.WriteString("| " + escapeMarkdown(c.name) + " ")
		}
		b.WriteString("|\n")
		for _, c := range t.columns {
			if c.number {
				b.WriteString("|--:")
			} else {
				b.WriteString("|---")
			}
		}
		b.WriteString("|\n")
		for _, row := range t.rows {
			for _, cell := range row {
				b.WriteString("| " + escapeMarkdown(cell) + " ")
			}
			b.WriteString("|\n")
		}
		if t.caption != "" {
			fmt.Fprintf(&b, "\n%s\n", escapeMarkdown(t.caption))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// escapeMarkdown keeps text from being read as markup. An underscore inside a word is plain already.
func escapeMarkdown(s string) string {
	runes := []rune(printable(s))
	var b strings.Builder
	for i, c := range runes {
		inWord := i > 0 && i+1 < len(runes) && isWord(runes[i-1]) && isWord(runes[i+1])
		switch {
		case strings.ContainsRune("\\`*[]|~#$", c), c == '_' && !inWord:
			b.WriteRune('\\')
			b.WriteRune(c)
		case c == '<':
			b.WriteString("&lt;")
		case c == '>':
			b.WriteString("&gt;")
		case c == '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func isWord(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c > 127
}

func (d document) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"table", "evaluation", "cell", "seed", "quantity", "value"}}
	for _, x := range d.data {
		rows = append(rows, []string{x.table, x.evaluation, x.cell, x.seed, x.quantity, strconv.FormatFloat(x.value, 'g', 12, 64)})
	}
	return out.WriteAll(rows)
}
