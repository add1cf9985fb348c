package main

import (
	"strings"
	"testing"
)

// TestNotSupported: what the language knows but this version does not do is refused before anything runs.
func TestNotSupported(t *testing.T) {
	for name, change := range map[string][2]string{
		"indexes in a database are not":  {"hnsw {}", "remote \"pgvector\" {}"},
		"a built-in corpus is generated": {"builtin = \"minihop\"\n", "builtin = \"minihop\"\n  limit   = 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text := world + method + comparison
			changed := strings.Replace(text, change[0], change[1], 1)
			if changed == text {
				t.Fatalf("the study has no %q", change[0])
			}
			p := newPlace(t, map[string]string{"study/main.hcl": changed})
			for _, verb := range []string{"validate", "plan", "run"} {
				_, stderr, code := p.try(verb, "study")
				if code != 1 {
					t.Errorf("%s ends with %d", verb, code)
				}
				wantAll(t, strings.ToLower(stderr), "not supported", "main.hcl line", name)
			}
		})
	}
}

// TestStudyNamedAsItsRecords: a study whose folder is called as its ablation is itself what its path means.
func TestStudyNamedAsItsRecords(t *testing.T) {
	p := newPlace(t, map[string]string{"groups/main.hcl": world + method + comparison})
	p.ok("run", "groups", "-var", "steps=1")
	wantAll(t, p.ok("status", "groups"), "runs/groups", "(not of the study as it is now)")
	wantAll(t, p.ok("report", "./groups", "-var", "steps=1"), "Primary comparison: em on test")
}

// TestOtherVariables: results made with other variables are not lost sight of.
func TestOtherVariables(t *testing.T) {
	p := newPlace(t, map[string]string{"study/main.hcl": world + method + comparison})
	p.ok("run", "study", "-var", "steps=1")
	_, stderr, code := p.try("report", "study")
	if code != 0 {
		t.Errorf("report ends with %d", code)
	}
	wantAll(t, stderr, "2 finished runs", "-var")
	wantAll(t, p.ok("status", "study"), "(not of the study as it is now)", "planned")
	if _, stderr, _ := p.try("report", "study", "-var", "steps=1"); stderr != "" {
		t.Errorf("report of the same variables: %s", stderr)
	}
	if strings.Contains(p.ok("status", "study-groups"), "not of the study") {
		t.Error("status of records alone speaks of the study")
	}

	if _, stderr, code := p.try("ask", "study", " "); code != 2 || !strings.Contains(stderr, "the question is empty") {
		t.Errorf("an empty question: %d %s", code, stderr)
	}
	_, stderr, _ = p.try("ask", "study", "what is zyzzyva 's mayor ?")
	wantAll(t, stderr, "vocabulary lacks zyzzyva:")
	if _, stderr, _ = p.try("ask", "study", "what is Frostlight 's setting ?"); stderr != "" {
		t.Errorf("a question of known words: %s", stderr)
	}
}
