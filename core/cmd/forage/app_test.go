package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// languageNames lists what the readers of the language ask blocks for: the literal first arguments of the reader's
// methods in the sources of core/experiment.
func languageNames(t *testing.T) []string {
	t.Helper()
	methods := []string{"text", "choice", "number", "above", "optionalNumber", "whole", "integer", "bool", "optionalBool", "texts", "numbers",
		"list", "block", "blocks", "attr", "has", "value", "reference", "referenceMap", "duration", "pair", "pairs"}
	files, err := filepath.Glob("../../experiment/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the sources of the language: %v %v", files, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(methods, method.Sel.Name) {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if name, err := strconv.Unquote(lit.Value); err == nil {
					names[name] = true
				}
			}
			return true
		})
	}
	return sortedNames(names)
}

func TestLongFlagsWithOneDash(t *testing.T) {
	root := newApp().root()
	got := doubleDashes(root, []string{"run", "x", "-var", "a=-json", "-var-file=f", "-v", "--only", "b", "-o", "f", "-json", "--", "-var"})
	want := []string{"run", "x", "--var", "a=-json", "--var-file=f", "-v", "--only", "b", "-o", "f", "--json", "--", "-var"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHelp: every verb says what it does, with an example that begins with its own name.
func TestHelp(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Name() == "help" || c.Name() == "completion" {
			return
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the short text is %q", c.CommandPath(), c.Short)
		}
		if !strings.HasPrefix(strings.TrimSpace(c.Example), c.CommandPath()) {
			t.Errorf("%s: the example is %q", c.CommandPath(), c.Example)
		}
		if c.Runnable() && c.Args == nil {
			t.Errorf("%s does not check its arguments", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newApp().root())
}
