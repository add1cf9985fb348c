package sdktest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// RetrieverCase is one configuration of a retriever with calls to answer.
type RetrieverCase struct {
	Name string
	// Values of the configuration. References may hold any handle: [Host] takes all.
	Values map[string]any
	Host   sdk.Host // nil means a [Host] with its usual documents
	// Calls to answer; nil means some that give each argument a text of the documents.
	Calls []sdk.Call
}

// TestRetriever checks a retriever with each case; without cases, with its defaults and references to made-up
// handles.
func TestRetriever(t *testing.T, plugin sdk.RetrieverPlugin, cases ...RetrieverCase) {
	t.Helper()
	if len(cases) == 0 {
		c := RetrieverCase{Name: "defaults", Values: map[string]any{}}
		for _, a := range plugin.Schema.Attributes {
			if a.Type.IsRef() && a.Required {
				c.Values[a.Name] = schema.Ref{Handle: "test", Digest: "test"}
			}
		}
		cases = []RetrieverCase{c}
	}
	testPlugin(t, sdk.Pack{Retrievers: []sdk.RetrieverPlugin{plugin}}, sdk.KindRetriever, plugin.Plugin, cases[0].Values)
	for i, c := range cases {
		if c.Name == "" {
			c.Name = fmt.Sprint("case ", i)
		}
		t.Run(c.Name, func(t *testing.T) { testRetrieverCase(t, plugin, c) })
	}
}

// sampleCalls gives each argument of the tool something of its type.
func sampleCalls(tool sdk.Tool) []sdk.Call {
	var calls []sdk.Call
	for i, text := range []string{"Chapel", "Ada Brook painter", "the river Ister", "no such thing at all"} {
		c := sdk.Call{EpisodeID: fmt.Sprint("e", i), Turn: i, Arguments: map[string]any{}}
		for _, a := range tool.Arguments {
			switch a.Type {
			case "string":
				c.Arguments[a.Name] = text
			case "int", "number":
				c.Arguments[a.Name] = 2.0
			case "bool":
				c.Arguments[a.Name] = true
			case "list(string)":
				c.Arguments[a.Name] = []any{text}
			}
		}
		for _, d := range Documents()[:i] {
			c.Seen = append(c.Seen, sdk.Seen{Turn: 0, Tool: tool.Name, DocumentID: d.DocumentID, ParagraphID: d.ParagraphID})
		}
		calls = append(calls, c)
	}
	return calls
}

func testRetrieverCase(t *testing.T, plugin sdk.RetrieverPlugin, c RetrieverCase) {
	if c.Host == nil {
		c.Host = &Host{}
	}
	r := Retriever(t, plugin, c.Values, c.Host)
	tool, err := r.Tool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("tool", func(t *testing.T) {
		if tool.Name == "" || tool.Description == "" {
			t.Errorf("the tool needs a name and a description: %+v", tool)
		}
		for _, a := range tool.Arguments {
			if a.Name == "" || !slices.Contains([]string{"string", "int", "number", "bool", "list(string)"}, a.Type) {
				t.Errorf("argument %+v needs a name and a type of string, int, number, bool or list(string)", a)
			}
		}
	})
	if c.Calls == nil {
		c.Calls = sampleCalls(tool)
	}
	call := func(t *testing.T, calls []sdk.Call) []sdk.CallResult {
		t.Helper()
		out, err := r.Call(t.Context(), sdk.CallRequest{Calls: calls})
		if err != nil {
			t.Fatal(err)
		}
		return out.Results
	}
	first := call(t, c.Calls)
	t.Run("results", func(t *testing.T) {
		for i, result := range first {
			if result.Error != "" && len(result.Hits) > 0 {
				t.Errorf("call %d has both hits and the error %q", i, result.Error)
			}
			for _, h := range result.Hits {
				finite(t, fmt.Sprintf("the score of %q", h.DocumentID), h.Score)
				if h.DocumentID == "" {
					t.Errorf("call %d: a hit has no document id: %+v", i, h)
				}
			}
		}
	})
	t.Run("same again", func(t *testing.T) { same(t, "a repeated request has other results", first, call(t, c.Calls)) })
	t.Run("order does not matter", func(t *testing.T) {
		calls := slices.Clone(c.Calls)
		slices.Reverse(calls)
		backwards := call(t, calls)
		slices.Reverse(backwards)
		same(t, "a batch in reverse has other results", first, backwards)
		for i := range c.Calls {
			same(t, fmt.Sprintf("call %d alone has other results", i), first[i], call(t, c.Calls[i:i+1])[0])
		}
	})
	t.Run("empty batch", func(t *testing.T) { call(t, nil) })
	t.Run("missing arguments", func(t *testing.T) {
		if !slices.ContainsFunc(tool.Arguments, func(a sdk.Argument) bool { return a.Required }) {
			t.Skip("the tool requires none")
		}
		results := call(t, append([]sdk.Call{{EpisodeID: "bad"}}, c.Calls...))
		if results[0].Error == "" {
			t.Error("a call without its required arguments must have an error text for the agent")
		}
		same(t, "a bad call changes the results of the others", first, results[1:])
	})
	t.Run("cancelled", func(t *testing.T) {
		direct, err := plugin.New(t.Context(), c.Values, c.Host)
		if err != nil {
			t.Fatal(err)
		}
		returns(t, func(ctx context.Context) error {
			_, err := direct.Call(ctx, sdk.CallRequest{Calls: c.Calls})
			return err
		})
	})
}
