package generate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/forage-rl/forage/core/retrieval/corpus"
)

// linkRecord is a line of a file of links.
type linkRecord struct {
	ID            json.RawMessage `json:"id"`
	Title         string          `json:"title"`
	Links         []string        `json:"links"`
	TextWithLinks any             `json:"text_with_links"`
}

// Links makes the graph of the links that a file of JSON lines (.jsonl, also .gz or .zst) gives: {"id" or "title",
// "links": [ids or titles]}, or the records of the Wikipedia that HotpotQA was made of, whose text_with_links holds
// anchors. Lines about documents that the corpus lacks and links to such are passed over; a graph without any link is
// an error. Of a document's links the first maxOut are kept (0: 64).
func Links(ctx context.Context, c *corpus.Corpus, path string, maxOut int) (*Graph, error) {
	if maxOut <= 0 {
		maxOut = DefaultMaxOut
	}
	out := make(map[int][]uint32)
	err := eachLine(ctx, path, func(line []byte) error {
		var r linkRecord
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("expected {\"title\": …, \"links\": […]}: %w", err)
		}
		from, ok := find(c, idText(r.ID), r.Title)
		if !ok {
			return nil
		}
		targets := r.Links
		collectAnchors(r.TextWithLinks, &targets)
		for _, name := range targets {
			to, ok := find(c, name, name)
			if ok && to != from && len(out[from]) < maxOut && !slices.Contains(out[from], uint32(to)) {
				out[from] = append(out[from], uint32(to))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	g := &Graph{corpus: c, first: make([]uint32, 1, c.Len()+1), kind: "links of a file"}
	for i := range c.Len() {
		if err := g.add(out[i]); err != nil {
			return nil, err
		}
	}
	if g.Links() == 0 {
		return nil, fmt.Errorf("links: %s has no link between two documents of the corpus; do its ids or titles belong to it?", path)
	}
	return g, nil
}

// find gives the document of an id, else the only one with a title.
func find(c *corpus.Corpus, id, title string) (int, bool) {
	if id != "" {
		if i, ok := c.Find(id); ok {
			return i, true
		}
	}
	if named := c.ByTitle(title); title != "" && len(named) == 1 {
		return named[0], true
	}
	return 0, false
}

func idText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return strings.TrimSpace(string(raw))
}

var anchor = regexp.MustCompile(`<a\s+href="([^"]*)"`)

// collectAnchors adds the targets of the anchors in a text, or in lists of texts.
func collectAnchors(v any, out *[]string) {
	switch v := v.(type) {
	case string:
		for _, m := range anchor.FindAllStringSubmatch(v, -1) {
			if name, err := url.PathUnescape(m[1]); err == nil {
				*out = append(*out, name)
			}
		}
	case []any:
		for _, x := range v {
			collectAnchors(x, out)
		}
	}
}

// eachLine gives the lines of a file that are not blank. Errors name file and line.
func eachLine(ctx context.Context, path string, yield func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = file
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		in = z
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer z.Close()
		in = z
	}
	lines := bufio.NewReaderSize(in, 1<<16)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := yield(text); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
		if err != nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
