// Package layout checks which package imports which: one way, from the command line down to the SDK.
package layout

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/forage-rl/forage/"

// layers lists the packages of the core from the top down. Each stands for the packages under it, which may import one
// another, and imports from lower layers only.
var layers = [][]string{
	{"core/cmd"},
	{"core/study"},
	{"core/plan", "core/run"},
	{"core/experiment", "core/host", "core/rollout", "core/generate", "core/endpoint", "core/evaluation", "core/policy", "core/dataset", "core/report", "core/metrics"},
	{"core/minihop"},
	{"core/retrieval"},
	{"core/sdk", "core/record"},
}

// leaves import nothing of ours but what stands beside them.
var leaves = map[string][]string{
	"core/record": nil, "core/sdk/diag": nil, "core/sdk/episode": nil, "core/sdk/objective": nil, "core/sdk/schema": {"core/sdk/diag"}, "core/sdk/text": nil,
	"core/policy/checkpoint": nil, "core/policy/tokenizer": nil,
	"core/internal/cases": nil, "core/internal/lines": nil, "core/internal/rng": nil, "core/internal/suggest": nil, "core/internal/vectors": nil,
}

// owners are the packages that alone may know a library. What the SDK must not depend on is tested with the SDK.
var owners = map[string][]string{
	"github.com/agext/levenshtein":    {"core/internal/suggest"},
	"github.com/gomlx/":               {"core/policy"},
	"github.com/hashicorp/go-plugin":  {"core/host", "core/internal/wire", "core/sdk"},
	"github.com/hashicorp/hcl":        {"core/cmd", "core/experiment", "core/host", "core/plan", "core/run", "core/study"}, // whose diagnostics name a file and line
	"github.com/nikolalohinski/gonja": {"core/policy/tokenizer"},
	"github.com/spf13/cobra":          {"core/cmd"},
	"github.com/vmihailenco/msgpack":  {"core/internal/wire"},
	"github.com/zclconf/go-cty":       {"core/experiment", "core/host"},
	"google.golang.org/grpc":          {"core/host", "core/internal/wire", "core/sdk"},
	"google.golang.org/protobuf":      {"core/internal/wire", "core/metrics"},
}

type listed struct {
	ImportPath, Name          string
	Imports                   []string
	TestImports, XTestImports []string
}

func (p listed) path() string { return strings.TrimPrefix(p.ImportPath, module) }

// packages lists the module's packages as go list sees them.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports,TestImports,XTestImports", module+"...")
	cmd.Dir = "../../.."
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 40 {
		t.Fatalf("go list names %d packages", len(all))
	}
	return all
}

// under says whether a package is one of the roots or below it.
func under(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") })
}

// layer gives the number of a package's layer, from the top, and the root it stands under; -1 for none.
func layer(path string) (int, string) {
	for i, roots := range layers {
		for _, root := range roots {
			if under(path, root) {
				return i, root
			}
		}
	}
	return -1, ""
}

func ours(imports []string) []string {
	var list []string
	for _, path := range imports {
		if rest, ok := strings.CutPrefix(path, module); ok {
			list = append(list, rest)
		}
	}
	return list
}

func TestLayout(t *testing.T) {
	all := packages(t)
	t.Run("imports point one way", func(t *testing.T) { oneWay(t, all) })
	t.Run("leaves import nothing of ours", func(t *testing.T) { checkLeaves(t, all) })
	t.Run("plugins import the SDK only", func(t *testing.T) { checkPlugins(t, all) })
	t.Run("libraries have owners", func(t *testing.T) { checkOwners(t, all) })
}

// oneWay: no package of the core imports one of its own or a higher layer. Helpers under core/internal are below all
// layers; the wire is known to the SDK and to the host alone.
func oneWay(t *testing.T, all []listed) {
	for _, p := range all {
		from := p.path()
		if under(from, "plugins") || p.Name == "main" && !under(from, "core/cmd") {
			continue // plugins have a rule of their own; the other programs make files of the repository
		}
		n, root := layer(from)
		if n < 0 && !under(from, "core/internal") {
			t.Errorf("%s stands in no layer: say in this test where it belongs", from)
		}
		for _, to := range ours(p.Imports) {
			switch m, other := layer(to); {
			case under(to, "core/internal/wire"):
				if !under(from, "core/internal/wire", "core/host", "core/sdk") {
					t.Errorf("%s imports %s, which is for core/sdk and core/host", from, to)
				}
			case under(to, "core/internal/testschemas"):
				t.Errorf("%s imports %s, which is for tests", from, to)
			case n < 0 && m >= 0 && !under(to, "core/sdk") && !under(from, "core/internal/testschemas"):
				t.Errorf("%s imports %s: helpers know no more than the SDK", from, to)
			case n >= 0 && m >= 0 && m <= n && root != other:
				t.Errorf("%s imports %s, which stands beside or above it", from, to)
			case under(to, "plugins"):
				t.Errorf("%s imports %s: the core knows no plugin", from, to)
			}
		}
	}
}

func checkLeaves(t *testing.T, all []listed) {
	seen := 0
	for _, p := range all {
		allowed, leaf := leaves[p.path()]
		if !leaf {
			continue
		}
		seen++
		for _, to := range ours(p.Imports) {
			if !slices.Contains(allowed, to) {
				t.Errorf("%s is a leaf and imports %s", p.path(), to)
			}
		}
	}
	if seen != len(leaves) {
		t.Errorf("%d of %d leaves are there", seen, len(leaves))
	}
}

// checkPlugins: plugins are what a third party could write; so are their tests.
func checkPlugins(t *testing.T, all []listed) {
	for _, p := range all {
		if !under(p.path(), "plugins") {
			continue
		}
		pack := strings.Join(strings.SplitN(p.path(), "/", 3)[:2], "/")
		for _, to := range ours(slices.Concat(p.Imports, p.TestImports, p.XTestImports)) {
			if !under(to, "core/sdk", pack) {
				t.Errorf("%s imports %s: only core/sdk and its own pack are allowed", p.path(), to)
			}
		}
	}
}

// checkOwners: what a library is chosen for is known in one place, so that it can be changed there.
func checkOwners(t *testing.T, all []listed) {
	for _, p := range all {
		for _, to := range p.Imports {
			for library, owner := range owners {
				if strings.HasPrefix(to, library) && !under(p.path(), owner...) {
					t.Errorf("%s imports %s, which belongs to %v", p.path(), to, owner)
				}
			}
		}
	}
}
