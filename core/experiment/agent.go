package experiment

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Values of [Agent.OnBudget].
const (
	OnBudgetClose     = "close"      // one more turn without tools, announced by the closing text if there is one
	OnBudgetStop      = "stop"       // the call ends the episode
	OnBudgetLimitText = "limit_text" // the call is answered by the limit text, then one more turn
)

// FirstSearchQuestion as [Agent.FirstAction] searches with the question before the policy speaks.
const FirstSearchQuestion = "search_question"

// Kinds of [Protocol].
const (
	ProtocolTags   = "tags"
	ProtocolJSON   = "json"
	ProtocolFields = "fields"
)

// agentNode merges what r says about its agent over base: a reference replaces it, a block changes parts.
func (c *resolver) agentNode(r *reader, base *node) *node {
	if ref := r.reference("agent", "agent"); ref != nil {
		base = c.block(ref)
	}
	over := r.block("agent")
	if over != nil && !c.labels(over, 0, "") {
		over = nil
	}
	return merge(base, over)
}

func (c *resolver) agent(n *node, tools map[string]*Tool) *Agent {
	r := c.read(n)
	a := &Agent{Name: n.label(), ChatTemplate: r.bool("chat_template", false), Range: n.def}
	a.System, a.User = c.template(r, "system", c.s.scopes.prompt), c.template(r, "user", c.s.scopes.prompt)
	a.Observation, a.Invalid, a.Limit = c.template(r, "observation", c.s.scopes.turn), c.template(r, "invalid", c.s.scopes.turn), c.template(r, "limit", c.s.scopes.turn)
	a.Closing = c.template(r, "closing", c.s.scopes.turn)
	a.MaxTurns, a.MaxSearches = r.whole("max_turns", 0, 0), r.whole("max_searches", 0, 0)
	a.OnBudget = r.choice("on_budget", OnBudgetClose, OnBudgetClose, OnBudgetStop, OnBudgetLimitText)
	a.FirstAction = r.choice("first_action", "", FirstSearchQuestion)
	a.MaxPromptTokens, a.MaxResponseTokens = r.whole("max_prompt_tokens", 0, 0), r.whole("max_response_tokens", 0, 0)
	a.MaxObservationTokens = r.whole("max_observation_tokens", 0, 0)
	a.TurnTokens = TurnTokens{512, 512, 512}
	if tokens := r.block("turn_tokens"); tokens != nil {
		t := c.read(tokens)
		a.TurnTokens.First = t.whole("first", 512, 1)
		a.TurnTokens.Next = t.whole("next", a.TurnTokens.First, 1)
		a.TurnTokens.Last = t.whole("last", a.TurnTokens.First, 1)
		t.done()
	}
	if protocol := r.block("protocol"); protocol != nil {
		a.Protocol = c.protocol(protocol)
	} else {
		c.errorf(n.def, "Missing block", `An agent needs a protocol: protocol "tags" { … }, "json" or "fields".`)
	}
	toolNames := sortedKeys(tools)
	if list, ok := r.texts("tools"); ok {
		a.Tools = list
		for _, name := range list {
			if tools[name] == nil {
				c.errorf(r.at("tools"), "Unknown tool", "The run has no tool %q.%s It has %s.", name, didYouMean(name, toolNames), listed(toolNames))
			}
		}
		toolNames = list
	}
	a.Tool = r.text("tool", "")
	if a.Tool != "" && !slices.Contains(toolNames, a.Tool) {
		c.errorf(r.at("tool"), "Unknown tool", "The agent has no tool %q.%s It has %s.", a.Tool, didYouMean(a.Tool, toolNames), listed(toolNames))
	}
	r.done()
	c.checkAgent(r, a, toolNames)
	return a
}

func listed(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// checkAgent checks what the attributes of an agent need of each other.
func (c *resolver) checkAgent(r *reader, a *Agent, tools []string) {
	need := func(name, why string) {
		if !r.has(name) {
			c.errorf(r.n.def, "Missing attribute", "An agent needs %s: %s.", name, why)
		}
	}
	need("user", "the prompt, such as \"${question.text}\"")
	if a.OnBudget == OnBudgetLimitText {
		need("limit", `the text that on_budget = "limit_text" says`)
	}
	if r.has("closing") && a.OnBudget != OnBudgetClose {
		c.errorf(r.at("closing"), "Nothing to close", "closing is said before the turn that on_budget = \"close\" leaves; this agent has on_budget = %q.", a.OnBudget)
	}
	if r.has("closing") && a.Protocol.Kind == ProtocolFields {
		c.errorf(r.at("closing"), "Nothing to close", "Under protocol \"fields\" every turn has a prompt of its own: let user say what a closing text would.")
	}
	if len(tools) > 0 {
		need("observation", "how the hits of a tool are laid out")
		if a.MaxTurns == 0 && a.MaxSearches == 0 {
			c.errorf(r.n.def, "Missing attribute", "An agent with tools needs max_turns or max_searches, or it may search for ever.")
		}
	}
	if a.Protocol.JSON != nil && a.MaxTurns == 0 {
		need("max_turns", "protocol \"json\" goes on after a call that cannot be carried out")
	}
	if len(tools) > 1 && a.Tool == "" && a.Protocol.Tags != nil && len(a.Protocol.Tags.Calls) == 0 {
		c.errorf(r.n.def, "Missing attribute", "Calls between tags name no tool, and the agent has %s: say which one is meant with tool, or give each its own tags with calls.", strings.Join(tools, ", "))
	}
	if a.Protocol.Tags != nil {
		for _, name := range sortedKeys(a.Protocol.Tags.Calls) {
			if len(tools) > 0 && !slices.Contains(tools, name) {
				c.errorf(r.n.def, "Unknown tool", "The protocol has tags for %q, which is no tool of the agent.%s", name, didYouMean(name, tools))
			}
		}
	}
}

// template compiles a text once per attribute (and seed, where it depends on it).
func (c *resolver) template(r *reader, name string, s scope) *Template {
	return compileOnce(c, r, name, s, "a text", "template "+s.what, func(x hclsyntax.Expression, f *frame) (*Template, hcl.Diagnostics) {
		return newTemplate(x, f, s)
	})
}

// expression compiles an expression once per attribute and set of names.
func (c *resolver) expression(r *reader, name string, s scope, result cty.Type) *Expression {
	return compileOnce(c, r, name, s, "an expression", "expression "+s.key, func(x hclsyntax.Expression, f *frame) (*Expression, hcl.Diagnostics) {
		return newExpression(x, f, s, result)
	})
}

// compileOnce checks the names in an attribute and compiles it, or gives what that came to before under the same kind.
func compileOnce[T any](c *resolver, r *reader, name string, s scope, want, kind string, compile func(hclsyntax.Expression, *frame) (*T, hcl.Diagnostics)) *T {
	a := r.attr(name)
	if a == nil || a.null() {
		return nil
	}
	if a.expr == nil {
		c.errorf(a.at, "Invalid value", "%s must be %s.", name, want)
		return nil
	}
	type compiled struct {
		made  *T
		diags hcl.Diagnostics
	}
	key := c.s.key(a, c.seed, kind)
	if done, ok := c.s.compiled[key]; ok {
		c.diags = append(c.diags, done.(compiled).diags...)
		return done.(compiled).made
	}
	f := c.s.frame(a.file, c.seed)
	diags := c.s.checkNames(a.expr, f, s.sample, true)
	var made *T
	if !diags.HasErrors() {
		var more hcl.Diagnostics
		made, more = compile(a.expr, f)
		diags = append(diags, more...)
	}
	c.s.compiled[key] = compiled{made, diags}
	c.diags = append(c.diags, diags...)
	return made
}

func (c *resolver) protocol(n *node) Protocol {
	p := Protocol{Kind: n.label()}
	if !c.labels(n, 1, "tags, json or fields") {
		return p
	}
	r := c.read(n)
	think := TagPair{"<think>", "</think>"}
	switch p.Kind {
	case ProtocolTags:
		calls := r.pairs("calls")
		var noCall *TagPair
		if len(calls) > 0 {
			noCall = &TagPair{} // all calls may have tags of their own
		}
		t := &TagsProtocol{
			Calls: calls, Think: r.pair("think", &think), Call: r.pair("call", noCall), Observation: r.pair("observation", nil), Answer: r.pair("answer", nil),
			StopAtAnswer: r.bool("stop_at_answer", true), CallsInThink: r.bool("calls_in_think", false),
		}
		closing := map[string]TagPair{"call": t.Call}
		for tool, pair := range t.Calls {
			closing["calls."+tool] = pair
		}
		for _, name := range sortedKeys(closing) {
			if pair := closing[name]; pair.Close != "" && strings.TrimSpace(pair.Close) == strings.TrimSpace(t.Answer.Close) {
				c.errorf(r.at("answer"), "Invalid value", "%s and answer must close differently, both close with %q.", name, pair.Close)
			}
		}
		p.Tags = t
	case ProtocolJSON:
		p.JSON = &JSONProtocol{
			Think: r.pair("think", &think), Call: r.pair("call", &TagPair{"<tool_call>", "</tool_call>"}),
			Observation: r.pair("observation", &TagPair{"<tool_response>", "</tool_response>"}), Answer: r.pair("answer", &TagPair{"<answer>", "</answer>"}),
			NameKey: r.text("name_key", "name"), ArgsKey: r.text("arguments_key", "arguments"),
			FinishTool: r.text("finish_tool", ""),
		}
		if r.has("finish_tool") {
			p.JSON.FinishArg = r.text("finish_argument", "answer")
		}
		if strings.TrimSpace(p.JSON.Call.Close) == strings.TrimSpace(p.JSON.Answer.Close) {
			c.errorf(r.at("answer"), "Invalid value", "call and answer must close differently, both close with %q.", p.JSON.Call.Close)
		}
	case ProtocolFields:
		p.Fields = &FieldsProtocol{
			Marker: r.pair("marker", &TagPair{"[[ ## ", " ## ]]"}), Thought: r.text("thought", "next_thought"), Tool: r.text("tool", "next_tool_name"),
			Arguments: r.text("arguments", "next_tool_args"), Completed: r.text("completed", "completed"),
			FinishTool: r.text("finish_tool", "finish"), FinishArg: r.text("finish_argument", ""), Inline: r.bool("inline", false),
		}
	default:
		kinds := []string{ProtocolTags, ProtocolJSON, ProtocolFields}
		c.errorf(n.def, "Unknown protocol", "There is no protocol %q.%s The protocols are %s.", p.Kind, didYouMean(p.Kind, kinds), strings.Join(kinds, ", "))
		return p
	}
	r.done()
	return p
}

// pair reads { open = "…", close = "…" }; without a fallback it is required.
func (r *reader) pair(name string, fallback *TagPair) TagPair {
	v, ok := r.value(name)
	if !ok {
		if fallback != nil {
			return *fallback
		}
		if !r.has(name) {
			r.c.errorf(r.n.def, "Missing attribute", "protocol %q needs %s = { open = \"…\", close = \"…\" }.", r.n.label(), name)
		}
		return TagPair{}
	}
	p, ok := pairOf(v)
	if !ok {
		r.c.errorf(r.at(name), "Invalid value", "%s must be { open = \"…\", close = \"…\" }, both not blank.", name)
	}
	return p
}

func (r *reader) pairs(name string) map[string]TagPair {
	v, ok := r.value(name)
	if !ok {
		return nil
	}
	out := map[string]TagPair{}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		r.wrong(name, "an object from tools to { open, close }", v)
		return nil
	}
	for key, element := range v.AsValueMap() {
		p, ok := pairOf(element)
		if !ok {
			r.c.errorf(r.at(name), "Invalid value", "%s.%s must be { open = \"…\", close = \"…\" }, both not blank.", name, key)
		}
		out[key] = p
	}
	return out
}

func pairOf(v cty.Value) (TagPair, bool) {
	if v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return TagPair{}, false
	}
	m := v.AsValueMap()
	if len(m) != 2 {
		return TagPair{}, false
	}
	var texts [2]string
	for i, key := range []string{"open", "close"} {
		t, ok := m[key]
		if !ok || t.IsNull() || !t.IsKnown() || t.Type() != cty.String || strings.TrimSpace(t.AsString()) == "" {
			return TagPair{}, false
		}
		texts[i] = t.AsString()
	}
	return TagPair{texts[0], texts[1]}, true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
