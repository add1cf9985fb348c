package experiment

import (
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	// maxSource bounds a file of the language. The largest ones are written configurations with long prompts.
	maxSource = 1 << 20
	// maxNesting bounds brackets, templates, conditions and signs within one another. The parser goes down once for
	// each, some eight kilobytes of stack, and running out of stack ends the process.
	maxNesting = 250
)

// parseFile reads a file of the language.
func (s *Study) parseFile(name string) (*hcl.File, hcl.Diagnostics) {
	if f := s.parser.Files()[name]; f != nil {
		return f, nil
	}
	source, err := readSource(name)
	if err != nil {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "File not readable", Detail: err.Error() + "."}}
	}
	tokens, diags := hclsyntax.LexConfig(source, name, hcl.InitialPos)
	if at := tooDeep(tokens); at != nil && !diags.HasErrors() {
		return nil, deep(at)
	}
	return s.parser.ParseHCL(source, name)
}

func readSource(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, err
	}
	if len(source) > maxSource {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxSource)
	}
	return source, nil
}

func parseExpressionText(text, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	tokens, diags := hclsyntax.LexExpression([]byte(text), name, hcl.InitialPos)
	if at := tooDeep(tokens); at != nil && !diags.HasErrors() {
		return nil, deep(at)
	}
	return hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
}

func parseTemplateText(text, name string, start hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics) {
	tokens, diags := hclsyntax.LexTemplate([]byte(text), name, start)
	if at := tooDeep(tokens); at != nil && !diags.HasErrors() {
		return nil, deep(at)
	}
	return hclsyntax.ParseTemplate([]byte(text), name, start)
}

func deep(at *hcl.Range) hcl.Diagnostics {
	return hcl.Diagnostics{errorAt(at, "Nesting too deep", "More than %d brackets, templates, conditions or signs stand within one another here.", maxNesting)}
}

// tooDeep gives the first token below the limit, or nil. It counts generously: what it lets pass is safe to parse.
func tooDeep(tokens hclsyntax.Tokens) *hcl.Range {
	var conditions []int // open conditions by bracket
	inner, signs, directives := 0, 0, 0
	control := false
	for _, t := range tokens {
		wasControl := control
		control = t.Type == hclsyntax.TokenTemplateControl
		if t.Type == hclsyntax.TokenMinus || t.Type == hclsyntax.TokenBang {
			signs++
		} else {
			signs = 0
		}
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			conditions = append(conditions, inner)
			inner = 0
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if n := len(conditions); n > 0 {
				inner, conditions = conditions[n-1], conditions[:n-1]
			}
		case hclsyntax.TokenQuestion:
			inner++
		case hclsyntax.TokenNewline:
			if len(conditions) == 0 {
				inner = 0
			}
		case hclsyntax.TokenIdent:
			if !wasControl {
				break
			}
			switch string(t.Bytes) {
			case "if", "for":
				directives++
			case "endif", "endfor":
				directives--
			}
		}
		total := len(conditions) + inner + signs + max(directives, 0)
		for _, n := range conditions {
			if total > maxNesting {
				break
			}
			total += n
		}
		if total > maxNesting {
			return t.Range.Ptr()
		}
	}
	return nil
}
