package main

import (
	"strings"
	"unicode"
)

// printable makes a text fit for a terminal, whoever wrote it: what a plugin, a document or a policy says must neither
// move the cursor nor change what stands on the screen. Characters that are neither seen nor spaces become U+FFFD.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
