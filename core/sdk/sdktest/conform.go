package sdktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forage-rl/forage/core/internal/wire"
	"github.com/forage-rl/forage/core/internal/wire/hostside"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// patience is how long a call with a cancelled context may take to come back.
const patience = 30 * time.Second

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// testPlugin checks what all kinds have in common. values is a valid configuration.
func testPlugin(t *testing.T, pack sdk.Pack, kind sdk.Kind, p sdk.Plugin, values map[string]any) {
	t.Run("describes itself", func(t *testing.T) {
		if !nameRule.MatchString(p.Name) {
			t.Errorf("name %q does not match %s", p.Name, nameRule)
		}
		if p.Description == "" {
			t.Error("it has no description")
		}
		client, name := hostside.NewPlugin(connect(t, pack, nil)), hostside.Name{Kind: kind, Name: p.Name}
		if all, err := client.List(t.Context()); err != nil || !slices.Contains(all.Plugins, name) {
			t.Errorf("the pack lists %v (%v)", all.Plugins, err)
		}
		if description, source, err := client.Describe(t.Context(), name); err != nil || description != p.Description || source != p.Source {
			t.Errorf("it is described as %q from %q (%v)", description, source, err)
		}
		s, err := client.Schema(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p.Schema, s, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("the schema changes on its way to the host:\n%s", d)
		}
		checkSchema(t, s, "")
	})
	t.Run("accepts its values", func(t *testing.T) {
		if err := validate(t, pack, kind, p, values).Err(); err != nil {
			t.Errorf("with %v: %v", values, err)
		}
	})
	t.Run("refuses an unknown attribute", func(t *testing.T) {
		with := map[string]any{"no_such_attribute": 1}
		maps.Copy(with, values)
		wantPath(t, validate(t, pack, kind, p, with), "no_such_attribute")
	})
	for _, a := range p.Schema.Attributes {
		if a.Required {
			t.Run("refuses to miss "+a.Name, func(t *testing.T) {
				without := map[string]any{}
				for k, v := range values {
					if k != a.Name {
						without[k] = v
					}
				}
				wantPath(t, validate(t, pack, kind, p, without), a.Name)
			})
		}
		for what, bad := range outOfRange(a) {
			t.Run(fmt.Sprintf("refuses %s %s", a.Name, what), func(t *testing.T) {
				with := map[string]any{}
				maps.Copy(with, values)
				with[a.Name] = bad
				wantPath(t, validate(t, pack, kind, p, with), a.Name)
			})
		}
	}
}

func outOfRange(a schema.Attribute) map[string]any {
	bad := map[string]any{}
	switch a.Type {
	case schema.Number, schema.Int:
		bad["that is text"] = "text"
		if a.Min != nil {
			bad["below its minimum"] = *a.Min - 1
		}
		if a.Max != nil {
			bad["above its maximum"] = *a.Max + 1
		}
	case schema.String:
		bad["that is a number"] = 7
		if len(a.Enum) > 0 {
			bad["outside its values"] = "no such value"
		}
	case schema.Bool:
		bad["that is text"] = "text"
	case schema.StringList, schema.NumberList:
		bad["that is no list"] = true
	}
	return bad
}

func validate(t *testing.T, pack sdk.Pack, kind sdk.Kind, p sdk.Plugin, values map[string]any) diag.Diagnostics {
	t.Helper()
	ds, _, err := hostside.NewPlugin(connect(t, pack, nil)).Validate(t.Context(), hostside.Name{Kind: kind, Name: p.Name}, values)
	if err != nil {
		t.Fatalf("validate %v: %v", values, err)
	}
	return ds
}

// wantPath wants an error about an attribute.
func wantPath(t testing.TB, ds diag.Diagnostics, attribute string) {
	t.Helper()
	if !slices.ContainsFunc(ds, func(d diag.Diagnostic) bool {
		return d.Severity == diag.Error && len(d.Path) > 0 && d.Path[0].Attr == attribute
	}) {
		t.Errorf("no error with path %s among: %v", attribute, ds)
	}
}

func checkSchema(t testing.TB, s schema.Schema, path string) {
	t.Helper()
	for _, a := range s.Attributes {
		if a.Description == "" {
			t.Errorf("attribute %s%s has no description", path, a.Name)
		}
		if a.Default != nil && a.Check(a.Default) != "" {
			t.Errorf("default %v of attribute %s%s is not valid: %s", a.Default, path, a.Name, a.Check(a.Default))
		}
	}
	for _, b := range s.Blocks {
		checkSchema(t, b.Schema, path+b.Type+".")
	}
}

// returns calls f with a cancelled context and wants it back in time, with or without an error.
func returns(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		if errors.Is(err, wire.ErrPanic) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Errorf("a call whose context is cancelled does not return within %s", patience)
	}
}

// finite reports numbers that are not.
func finite(t testing.TB, what string, values ...float64) {
	t.Helper()
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s is %v", what, v)
			return
		}
	}
}

// same wants equal answers.
func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("%s (-first +again):\n%s", what, d)
	}
}
