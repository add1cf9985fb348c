package vectors_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
)

const root = "../../.." // of the module

// held lists the vector files of the repository by topic/name, with the folders of the packages that keep a copy.
func held(t *testing.T) map[string][]string {
	t.Helper()
	mark := string(filepath.Separator) + filepath.Join("testdata", "vectors") + string(filepath.Separator)
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		folder, name, found := strings.Cut(path, mark)
		if found && !d.IsDir() && filepath.Ext(path) == ".json" {
			name = filepath.ToSlash(strings.TrimSuffix(name, ".json"))
			out[name] = append(out[name], folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryVectorFileIsRead: a copy that no test named Vector of its package reads would hold nothing. Tests name files by
// literals, of topic and name, in the test or in what it ranges over.
func TestEveryVectorFileIsRead(t *testing.T) {
	files := held(t)
	if len(files) < 60 {
		t.Fatalf("found %d vector files", len(files))
	}
	words := map[string][]string{} // string literals of the test files with a Vector test, per package
	for name, folders := range files {
		topic, file, _ := strings.Cut(name, "/")
		for _, folder := range folders {
			if words[folder] == nil {
				words[folder] = literals(t, folder)
			}
			if !slices.Contains(words[folder], topic) || !slices.Contains(words[folder], file) {
				t.Errorf("%s keeps the vectors %s, but no Vector test of its names them", folder, name)
			}
		}
	}
}

func literals(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := []string{""}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		isVector := func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && strings.HasPrefix(f.Name.Name, "Test") && strings.Contains(f.Name.Name, "Vector")
		}
		if !slices.ContainsFunc(file.Decls, isVector) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					out = append(out, s)
				}
			}
			return true
		})
	}
	return out
}

// TestSharedVectorsAreHeld: every golden vector of the shared folder is in the repository, byte for byte.
func TestSharedVectorsAreHeld(t *testing.T) {
	shared := vectors.Shared(t, "vectors")
	files := held(t)
	paths, err := filepath.Glob(filepath.Join(shared, "*", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d vector files in %s: %v", len(paths), shared, err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path)) + "/" + strings.TrimSuffix(filepath.Base(path), ".json")
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(files[name]) == 0 {
			t.Errorf("no package holds the vectors %s", name)
		}
		for _, folder := range files[name] {
			got, err := os.ReadFile(filepath.Join(folder, "testdata", "vectors", filepath.FromSlash(name)+".json"))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("the copy of %s in %s differs: %v", name, folder, err)
			}
		}
	}
}
