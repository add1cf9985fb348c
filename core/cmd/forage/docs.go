package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/record"
)

// languageReference describes the blocks of the language. A test holds it against the blocks that the language reads.
//
//go:embed language.md
var languageReference string

func (a *app) docsCommand() *cobra.Command {
	var file string
	var all bool
	c := &cobra.Command{
		Use:     "docs",
		Short:   "Write the reference of the language and of all plugins",
		Long:    "Write the reference of the language's blocks and of every plugin's attributes, with defaults, ranges and sources, as\nMarkdown. The plugins are those built with forage.",
		Example: "  forage docs -o REFERENCE.md\n  forage docs --all",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			catalogue, err := a.discover(cmd.Context())
			if err != nil {
				return err
			}
			defer catalogue.Close()
			plugins, err := catalogue.Plugins(cmd.Context())
			if err != nil && all {
				return err
			}
			var b strings.Builder
			writeReference(&b, plugins, all)
			if file == "" {
				_, err := io.WriteString(a.out, b.String())
				return err
			}
			if err := record.WriteFile(file, []byte(b.String())); err != nil {
				return fmt.Errorf("write the reference: %w", err)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "", "`file` to write to (default: standard output)")
	c.Flags().BoolVar(&all, "all", false, "also describe the plugins of trusted third parties")
	return c
}

func writeReference(w io.Writer, plugins []host.PluginInfo, all bool) {
	fmt.Fprintln(w, "<!-- Written by \"forage docs\" from the plugins' own schemas; change those, not this file. -->")
	fmt.Fprintln(w)
	fmt.Fprintln(w, strings.TrimSpace(languageReference))
	kind := ""
	for _, p := range plugins {
		if !p.Pack.Bundled && !all {
			continue
		}
		if string(p.Kind) != kind {
			kind = string(p.Kind)
			fmt.Fprintf(w, "\n## Plugins: %ss\n", kind)
		}
		fmt.Fprintf(w, "\n### %s \"%s\"\n\n%s\n\n", p.Kind, p.Label, p.Description)
		if p.Source != "" {
			fmt.Fprintf(w, "Source: %s\n\n", p.Source)
		}
		writeSchema(w, p.Schema, markdownReference{})
	}
}
