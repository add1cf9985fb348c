package sdk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDependencies keeps the SDK small for its users: no tensors, no configuration language, no database.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	banned := regexp.MustCompile(`gomlx|hashicorp/hcl|go-cty|pgx|forage/core/(host|policy|retrieval|rollout|plan|run|study|experiment)`)
	for line := range strings.Lines(string(out)) {
		if banned.MatchString(line) {
			t.Errorf("the SDK depends on %s", line)
		}
	}
}

// TestExportedTypes keeps the connection out of what authors see.
func TestExportedTypes(t *testing.T) {
	banned := regexp.MustCompile(`grpc|protobuf|go-plugin|go-cty|hclog|core/internal/wire`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		packages := map[string]string{}
		for _, i := range f.Imports {
			target, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			name := filepath.Base(target)
			if i.Name != nil {
				name = i.Name.Name
			}
			packages[name] = target
		}
		mentions := func(e ast.Node) {
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.StructType:
					n.Fields.List = slices.DeleteFunc(n.Fields.List, func(field *ast.Field) bool {
						return len(field.Names) > 0 && !field.Names[0].IsExported()
					})
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && banned.MatchString(packages[x.Name]) {
						t.Errorf("%s: an exported declaration mentions %s.%s", files.Position(n.Pos()), x.Name, n.Sel.Name)
					}
				}
				return true
			})
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
					mentions(d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() {
						mentions(ts.Type)
					}
					if vs, ok := spec.(*ast.ValueSpec); ok && vs.Type != nil && vs.Names[0].IsExported() {
						mentions(vs.Type)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exportedReceiver(list *ast.FieldList) bool {
	e := list.List[0].Type
	if s, ok := e.(*ast.StarExpr); ok {
		e = s.X
	}
	id, ok := e.(*ast.Ident)
	return ok && id.IsExported()
}
