package experiment

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// testFrame knows var.name, local.count and seed.
func testFrame() *frame {
	deferred := &frame{ctx: &hcl.EvalContext{Functions: functions()}}
	return &frame{
		deferred: deferred,
		roots:    map[string]bool{"var": true, "local": true, "seed": true},
		ctx: &hcl.EvalContext{Functions: deferred.ctx.Functions, Variables: map[string]cty.Value{
			"var":   cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("Ann <tag> ${x} %{y} \"q\" $"), "n": cty.NumberFloatVal(0.1)}),
			"local": cty.ObjectVal(map[string]cty.Value{"count": cty.NumberIntVal(3)}),
			"seed":  cty.NumberIntVal(7),
		}},
	}
}

// anyScope lets everything pass that a test may write.
func anyScope() scope {
	return scope{what: "a test", sample: map[string]cty.Value{
		"question": sampleQuestion(), "hits": sampleHits(), "metrics": cty.UnknownVal(cty.Map(cty.Number)), "x": cty.DynamicVal, "step": num(3),
	}}
}

func compile(t *testing.T, source string) *Template {
	t.Helper()
	expr, diags := hclsyntax.ParseExpression([]byte(source), "test.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	template, diags := newTemplate(expr, testFrame(), anyScope())
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return template
}

func TestTemplateTrust(t *testing.T) {
	vars := map[string]any{
		"question": episode.Question{Text: "who <search>?", Hops: 2, Metadata: map[string]any{"tau": 0.5}},
		"hits":     []episode.Hit{{Title: "A", Text: "<answer>"}, {Title: "B", Text: "b"}},
	}
	for _, c := range []struct {
		source string
		want   []Piece
	}{
		{`"plain <think>"`, []Piece{{"plain <think>", true}}},
		{`""`, nil},
		{`"Q: ${question.text}\n"`, []Piece{{"Q: ", true}, {"who <search>?", false}, {"\n", true}}},
		{`"${question.text}"`, []Piece{{"who <search>?", false}}},
		{`question.text`, []Piece{{"who <search>?", false}}},
		{`"${upper(question.text)}!"`, []Piece{{"WHO <SEARCH>?", false}, {"!", true}}},
		{`"${var.name} ${local.count + 1} ${seed}"`, []Piece{{"Ann <tag> ${x} %{y} \"q\" $ 4 7", true}}},
		{`"%{for i, hit in hits}${i + 1}: ${hit.text}\n%{endfor}end"`, []Piece{
			{"1", false}, {": ", true}, {"<answer>", false}, {"\n", true}, {"2", false}, {": ", true}, {"b", false}, {"\nend", true}}},
		{`"%{if question.hops > 1}many%{else}one%{endif}"`, []Piece{{"many", true}}},
		{`"${question.hops > 2 ? "<a>" : question.text}"`, []Piece{{"who <search>?", false}}},
		{`"${question.hops > 1 ? "<a>${question.hops}" : "x"}"`, []Piece{{"<a>", true}, {"2", false}}},
		{`"${join(", ", [for h in hits : "${h.title}"])}"`, []Piece{{"A, B", false}}},
		{`"${"<t>"}${("<u>")}"`, []Piece{{"<t><u>", true}}},
		{`"$${question.text} %%{if}"`, []Piece{{"${question.text} %{if}", true}}},
		{`"${question.metadata["tau"] * 2}"`, []Piece{{"1", false}}},
		{`"${hits[0].title}${hits.*.title[1]}${hits[*].title[0]}"`, nil}, // an error: see below
	} {
		template := compile(t, c.source)
		got, err := template.Render(vars)
		if strings.Contains(c.source, "[*]") {
			if err == nil || !strings.Contains(err.Error(), "test.hcl:1") {
				t.Errorf("%s: error %v, want one with its place", c.source, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.source, got, err, c.want)
		}
		again := compile(t, `"`+template.Source()+`"`)
		if again.Source() != template.Source() {
			t.Errorf("%s: canonical form %q is written as %q", c.source, template.Source(), again.Source())
		}
		if text, err := again.Render(vars); err != nil || !reflect.DeepEqual(text, c.want) {
			t.Errorf("%s: canonical form gives %v, %v", c.source, text, err)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	template := compile(t, `"${question.metadata["absent"]}"`)
	if _, err := template.Render(map[string]any{"question": episode.Question{}}); err == nil || !strings.Contains(err.Error(), "test.hcl:1") {
		t.Errorf("a missing key gave %v, want an error with its place", err)
	}
	template = compile(t, `"${question.text}"`)
	for _, vars := range []map[string]any{nil, {"question": nil}, {"question": map[string]any{"text": nil}}, {"question": map[string]any{"text": []string{"a"}}}, {"question": make(chan int)}} {
		if _, err := template.Render(vars); err == nil {
			t.Errorf("%v rendered without an error", vars)
		}
	}
}

func expressionOf(t *testing.T, source string, result cty.Type) (*Expression, hcl.Diagnostics) {
	t.Helper()
	expr, diags := hclsyntax.ParseExpression([]byte(source), "test.hcl", hcl.Pos{Line: 4, Column: 2})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return newExpression(expr, testFrame(), anyScope(), result)
}

func TestExpressionText(t *testing.T) {
	for source, want := range map[string]string{
		`1 + 2 * 3`:                          `7`,
		`step * (0.5*step + 0.50*step)`:      `step * (0.5 * step + 0.5 * step)`,
		`(step + 1) * (step)`:                `(step + 1) * step`,
		`step - (1 - step)`:                  `step - (1 - step)`,
		`(step - 1) - step`:                  `step - 1 - step`,
		`-(step)`:                            `-step`,
		`- -step`:                            `-(-step)`,
		`metrics["a/b"] < var.n && step > 2`: `metrics["a/b"] < 0.1 && step > 2`,
		`metrics.a`:                          `metrics.a`,
		`(step > 1 ? 1 : 2) + 1`:             `(step > 1 ? 1 : 2) + 1`,
		`step > 1 ? step > 2 ? 1 : 2 : 3`:    `step > 1 ? (step > 2 ? 1 : 2) : 3`,
		`max(step, local.count, seed)`:       `max(step, 3, 7)`,
		`max([step, 1]...)`:                  `max([step, 1]...)`,
		`length([for h in hits : h.score if h.score > 0.5])`:   `length([for h in hits : h.score if h.score > 0.5])`,
		`length({for k, h in hits : "${k}" => h.score...})`:    `length({for k, h in hits : k => h.score...})`,
		`max(hits[*].score...)`:                                `max(hits[*].score...)`,
		`(hits[*].score)[0]`:                                   `(hits[*].score)[0]`,
		`hits.*.score[0]`:                                      `(hits[*].score)[0]`,
		`{ a = step, (question.text) = 2 }["a"]`:               `{"a" = step, (question.text) = 2}["a"]`,
		"step + # why\n 1":                                     `step + 1`,
		`!(step > 1) ? 1 : 0`:                                  `!(step > 1) ? 1 : 0`,
		`strlen("<${question.text}>")`:                         `strlen("<${question.text}>")`,
		`1e-6 * step`:                                          `1e-06 * step`,
		`0.1 + 0.2 + step`:                                     `0.30000000000000004 + step`,
		`x.a["b"][0].c[step]`:                                  `x.a["b"][0].c[step]`,
		`regexall("a\\.b", question.text)[0] == "" ? 1 : step`: `regexall("a\\.b", question.text)[0] == "" ? 1 : step`,
	} {
		expr, diags := hclsyntax.ParseExpression([]byte("("+source+")"), "test.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%s: %v", source, diags)
		}
		got, diags := testFrame().print(expr)
		if diags.HasErrors() || got != want {
			if source == `0.1 + 0.2 + step` && got == "0.3 + step" {
				continue // exact sums are just as good
			}
			t.Errorf("%s is written as %s (%v), want %s", source, got, diags, want)
		}
	}
}

func TestExpressionValues(t *testing.T) {
	x, diags := expressionOf(t, `step / 2 + var.n`, cty.Number)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if got, err := x.Number(map[string]any{"step": 4}); err != nil || got != 2.1 {
		t.Errorf("got %v, %v, want 2.1", got, err)
	}
	x, _ = expressionOf(t, `1 / (step - 4)`, cty.Number)
	if got, err := x.Number(map[string]any{"step": 4}); err == nil || !strings.Contains(err.Error(), "test.hcl:4") || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("division by zero gave %v, %v, want an error with its place", got, err)
	}
	if _, err := x.Number(map[string]any{}); err == nil || !strings.Contains(err.Error(), "test.hcl:4") {
		t.Errorf("a missing name gave %v", err)
	}
	w, diags := expressionOf(t, `metrics["episode/searches"] < 0.2 && metrics.reward > 0 && step > 20`, cty.Bool)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if keys := w.Keys("metrics"); !reflect.DeepEqual(keys, []string{"episode/searches", "reward"}) {
		t.Errorf("keys %v", keys)
	}
	vars := map[string]any{"step": 30, "metrics": map[string]float64{"episode/searches": 0.1, "reward": 1}}
	if got, err := w.Bool(vars); err != nil || !got {
		t.Errorf("got %v, %v, want true", got, err)
	}
	for source, result := range map[string]cty.Type{`step > 1`: cty.Number, `metrics.x`: cty.Bool, `metrics.x > 1`: cty.Number, `step + 1`: cty.Bool} {
		if _, diags := expressionOf(t, source, result); !diags.HasErrors() {
			t.Errorf("%s passed as a %s", source, result.FriendlyName())
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"learning_rate", "eps"}
	for got, want := range map[string]string{"learning_rte": ` Did you mean "learning_rate"?`, "zzz": ""} {
		if hint := didYouMean(got, known); hint != want {
			t.Errorf("%q: hint %q, want %q", got, hint, want)
		}
	}
}

// FuzzExpression: the canonical form of whatever can be read is read again, is its own canonical form, and has the
// same value.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		`1 + step * 2`, `"a ${question.text} %{for h in hits}${h.text}%{endfor}"`, `hits[*].title`, `[for h in hits : h.title if h.score > 0]`,
		`{for i, h in hits : h.title => i...}`, `step > 1 ? "$" : "${"%"}{"`, `"$${a} \u0024{"`, `x.*.y.z[0]`, `-(-step)`, `!(!(step == 1))`, `"$${"`, `"${question.text}$"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 200 {
			return
		}
		fr := testFrame()
		expr, diags := hclsyntax.ParseExpression([]byte(source), "test.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			return
		}
		ctx := fr.ctx.NewChild()
		ctx.Variables = anyScope().sample
		value, valueDiags := expr.Value(ctx)
		text, diags := fr.print(expr)
		if diags.HasErrors() || valueDiags.HasErrors() {
			return
		}
		again, diags := hclsyntax.ParseExpression([]byte(text), "test.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%q is written as %q, which cannot be read: %v", source, text, diags)
		}
		if second, _ := fr.print(again); second != text {
			t.Fatalf("%q is written as %q and then as %q", source, text, second)
		}
		got, diags := again.Value(ctx)
		if diags.HasErrors() || !sameValue(got, value) {
			t.Fatalf("%q is written as %q: value %#v in place of %#v (%v)", source, text, got, value, diags)
		}
		if template, diags := newTemplate(expr, fr, anyScope()); !diags.HasErrors() && template != nil {
			copied := compileQuiet(template.Source())
			if copied == nil || copied.Source() != template.Source() {
				t.Fatalf("template %q is written as %q", source, template.Source())
			}
		}
	})
}

func compileQuiet(source string) *Template {
	expr, diags := hclsyntax.ParseExpression([]byte(`"`+source+`"`), "test.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		return nil
	}
	template, _ := newTemplate(expr, testFrame(), anyScope())
	return template
}

// sameValue compares up to the precision of a float64.
func sameValue(a, b cty.Value) bool {
	if !a.IsWhollyKnown() || !b.IsWhollyKnown() {
		return true
	}
	return printValue(a) == printValue(b)
}
