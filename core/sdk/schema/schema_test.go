package schema

import (
	"strings"
	"testing"
)

type inner struct {
	Rate float64 `forage:"rate" default:"0.5" min:"0" max:"1" doc:"A rate."`
}

type config struct {
	Size  int               `forage:"size" default:"5" min:"2" doc:"Size of a group."`
	KL    string            `forage:"kl" default:"k3" enum:"k1,k2,k3" doc:"Estimator."`
	Index Ref               `forage:"index" type:"index" doc:"Index."`
	Tags  []string          `forage:"tags" default:"a,b" doc:"Tags."`
	Map   map[string]string `forage:"map,optional" doc:"A map."`
	Inner inner             `forage:"inner" doc:"Nested."`
	Extra *inner            `forage:"extra" doc:"Nested and optional."`
}

func TestDecode(t *testing.T) {
	var c config
	ds := Decode(map[string]any{
		"size": int64(7), "index": map[string]any{"handle": "h", "digest": "d"}, "map": map[string]any{"x": "y"},
		"inner": map[string]any{"rate": 0.25},
	}, &c)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	if c.Size != 7 || c.KL != "k3" || c.Index.Handle != "h" || len(c.Tags) != 2 || c.Map["x"] != "y" || c.Inner.Rate != .25 || c.Extra != nil {
		t.Fatalf("got %+v", c)
	}
}

// TestReferences: lists of references are described, checked and decoded element by element.
func TestReferences(t *testing.T) {
	type config struct {
		Agents []Ref `forage:"agents" type:"agent" doc:"Agents."`
	}
	s, err := Of[config]()
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Attributes[0]; a.Type != AgentRefs || a.Type.Element() != AgentRef || !a.Required {
		t.Errorf("got %+v", a)
	}
	var c config
	ds := Decode(map[string]any{"agents": []any{map[string]any{"handle": "agent.a", "digest": "x"}, Ref{Handle: "agent.b"}}}, &c)
	if ds.HasErrors() || len(c.Agents) != 2 || c.Agents[0] != (Ref{Handle: "agent.a", Digest: "x"}) || c.Agents[1].Handle != "agent.b" {
		t.Errorf("got %+v, %v", c, ds)
	}
	if err := Decode(map[string]any{"agents": []any{"agent.a"}}, &c).Err(); err == nil || !strings.Contains(err.Error(), "element 0") {
		t.Errorf("a text in place of a reference: %v", err)
	}
	type wrong struct {
		Agents []Ref `forage:"agents" type:"string" doc:"Agents."`
	}
	if _, err := Of[wrong](); err == nil || !strings.Contains(err.Error(), "references need") {
		t.Errorf("references without a kind: %v", err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, test := range map[string]struct {
		values map[string]any
		want   string
	}{
		"missing":    {map[string]any{}, `index: Missing required attribute`},
		"small":      {map[string]any{"index": Ref{Handle: "h"}, "size": 1}, "at least 2"},
		"fraction":   {map[string]any{"index": Ref{Handle: "h"}, "size": 2.5}, "whole number"},
		"enum":       {map[string]any{"index": Ref{Handle: "h"}, "kl": "k4"}, "one of k1, k2, k3"},
		"unknown":    {map[string]any{"index": Ref{Handle: "h"}, "sise": 3}, `"sise" is not expected`},
		"nested":     {map[string]any{"index": Ref{Handle: "h"}, "inner": map[string]any{"rate": 2}}, "inner.rate: Invalid value"},
		"wrong type": {map[string]any{"index": Ref{Handle: "h"}, "tags": "a"}, "[]string is required"},
		"reference":  {map[string]any{"index": "h"}, "reference"},
	} {
		t.Run(name, func(t *testing.T) {
			var c config
			err := Decode(test.values, &c).Err()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	s, err := Of[config]()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Attributes) != 5 || len(s.Blocks) != 2 || !s.Attributes[2].Required || s.Attributes[0].Required || s.Blocks[0].Required {
		t.Fatalf("got %+v", s)
	}
	if _, err := Of[struct {
		X int `forage:"x" default:"1" min:"2" doc:"d"`
	}](); err == nil {
		t.Fatal("a default out of range must be refused")
	}
}
