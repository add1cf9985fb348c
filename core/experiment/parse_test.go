package experiment

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TestNesting: what would run out of stack is refused before it is parsed, and what people write is not.
func TestNesting(t *testing.T) {
	for _, part := range []string{"(", "[", "-", "!", "{a=", "a ? b : ", "a ? ", `"${`, "f(", "[for x in ", `"%{if a}`, "a[", "-(", `{"${`} {
		source := []byte("a = " + strings.Repeat(part, 20_000))
		tokens, _ := hclsyntax.LexConfig(source, "x", hcl.InitialPos)
		if tooDeep(tokens) == nil {
			t.Errorf("20,000 times %q pass", part)
		}
	}
	nested := strings.Repeat("%{if a}", 20_000)
	tokens, _ := hclsyntax.LexTemplate([]byte(nested), "x", hcl.InitialPos)
	if tooDeep(tokens) == nil {
		t.Error("20,000 nested directives pass")
	}
	for _, fine := range []string{
		"a = [" + strings.Repeat("1, ", 10_000) + "]",
		strings.Repeat("a \"b\" {\n  c = x ? 1 : 2\n  d = -1\n}\n", 1000),
		"a = 1" + strings.Repeat(" + 1", 10_000),
		"a = " + strings.Repeat("(", 50) + "1" + strings.Repeat(")", 50),
		"a = <<EOT\n" + strings.Repeat("%{if a}x%{endif}\n%{for b in c}${b}%{endfor}\n", 1000) + "EOT\n",
	} {
		tokens, _ := hclsyntax.LexConfig([]byte(fine), "x", hcl.InitialPos)
		if at := tooDeep(tokens); at != nil {
			t.Errorf("%.40q is refused at %s", fine, at)
		}
	}
}
