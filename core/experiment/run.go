package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// experiment fills the run from a merged experiment block.
func (c *resolver) experiment(n *node) {
	run := c.run
	r := c.read(n)
	r.attr("seeds")
	r.text("description", "")
	c.policies(r)
	c.tools(r, run.Tools)
	run.Deterministic = r.optionalBool("deterministic")
	agentNode := c.agentNode(r, nil)
	stages := c.stageList(r)
	evaluations := r.blocks("evaluate")
	if len(stages) == 0 && len(evaluations) == 0 && !c.method {
		c.errorf(n.def, "Nothing to do", "%s has neither stages nor evaluate blocks.", n.name())
	}
	if agentNode == nil {
		if !r.has("agent") && !c.method {
			c.errorf(n.def, "Missing attribute", "%s needs an agent: agent = agent.x.", n.name())
		}
	} else {
		run.Agent = c.agent(agentNode, run.Tools)
	}
	c.agents(r)
	defaults := stageDefaults{agent: agentNode, run: r}
	defaults.read(c)
	run.Sampling = c.sampling(defaults.sampling)
	c.artefact = map[string]bool{}
	for _, stage := range stages {
		s := c.stage(stage, defaults)
		run.Stages = append(run.Stages, s)
		for _, name := range s.Produce {
			c.artefact[name] = true
		}
	}
	c.unheeded()
	for _, e := range evaluations {
		run.Evaluations = append(run.Evaluations, c.evaluation(e, defaults))
	}
	slices.SortFunc(run.Evaluations, func(a, b *Evaluation) int { return strings.Compare(a.Name, b.Name) })
	for _, g := range r.blocks("guard") {
		run.Guards = append(run.Guards, c.guard(g))
	}
	slices.SortFunc(run.Guards, func(a, b *Guard) int { return strings.Compare(a.Name, b.Name) })
	c.checkpoint(r)
	c.runtime(r)
	r.done()
}

func (c *resolver) policies(r *reader) {
	roles, given := r.referenceMap("policies", "policy")
	if !given && !r.has("policies") {
		if c.method {
			return
		}
		c.errorf(r.n.def, "Missing attribute", "%s needs policies = { main = policy.x }.", r.n.name())
		return
	}
	c.swap(r, "policies", "policy", roles)
	for _, role := range sortedKeys(roles) {
		if p := c.policy(roles[role], role); p != nil {
			c.run.Policies[role] = p
		}
	}
	if given && roles["main"] == nil {
		c.errorf(r.at("policies"), "Missing policy", "policies has no main, which is trained and evaluated.%s", didYouMean("main", sortedKeys(roles)))
	}
}

func (c *resolver) tools(r *reader, into map[string]*Tool) bool {
	refs, given := r.referenceMap("tools", "tool")
	if r.n.typ == "experiment" {
		c.swap(r, "tools", "tool", refs)
	}
	for _, name := range sortedKeys(refs) {
		if t := c.tool(refs[name], name); t != nil {
			into[name] = t
		}
	}
	return given
}

// swap applies axes over whole entries, such as policies.main.
func (c *resolver) swap(r *reader, name, kind string, refs map[string]*blockRef) {
	over := c.overlays[name]
	if over == nil {
		return
	}
	for _, key := range sortedKeys(over.attrs) {
		a := over.attrs[key]
		if refs[key] == nil {
			c.lacks(a.axis, fmt.Sprintf("there is no %q in %s", key, name), didYouMean(key, sortedKeys(refs)))
			continue
		}
		inner := c.read(over)
		if ref := inner.reference(key, kind); ref != nil {
			refs[key] = ref
		}
	}
}

// agents reads further agents that the algorithm may name.
func (c *resolver) agents(r *reader) {
	refs, _ := r.referenceMap("agents", "agent")
	for _, name := range sortedKeys(refs) {
		if n := c.block(refs[name]); n != nil {
			c.run.Agents[name] = c.agent(n, c.run.Tools)
		}
	}
}

// stageList gives the stages in order.
func (c *resolver) stageList(r *reader) []*node {
	blocks := r.blocks("stage")
	byName := map[string]*node{}
	var known []string
	for _, b := range blocks {
		byName[b.label()] = b
		known = append(known, b.label())
		if !names.MatchString(b.label()) {
			c.errorf(b.def, "Invalid name", "%q cannot be used in paths. Names start with a lower-case letter, followed by lower-case letters, digits and _.", b.label())
		}
	}
	list, given := r.texts("stages")
	if !given {
		if len(blocks) > 1 {
			c.errorf(blocks[1].def, "Missing attribute", "%s has several stages; say their order: stages = [\"%s\"].", r.n.name(), strings.Join(known, `", "`))
		}
		return blocks
	}
	var out []*node
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			c.errorf(r.at("stages"), "Duplicate stage", "Stage %q is listed twice.", name)
			continue
		}
		if b := byName[name]; b != nil {
			out = append(out, b)
			continue
		}
		c.errorf(r.at("stages"), "Unknown stage", "There is no stage %q.%s The stages are %s.", name, didYouMean(name, known), listed(known))
	}
	return out
}

func (c *resolver) evaluation(n *node, d stageDefaults) *Evaluation {
	r := c.read(n)
	e := &Evaluation{Name: n.label(), Range: n.def, Tools: map[string]*Tool{}}
	if !names.MatchString(e.Name) {
		c.errorf(n.def, "Invalid name", "%q cannot be used in metric(): a lower-case letter, then lower-case letters, digits and _.", e.Name)
	}
	if ref := r.reference("dataset", "dataset"); ref != nil {
		e.Dataset = c.dataset(ref)
	} else if !r.has("dataset") {
		c.errorf(n.def, "Missing attribute", "%s needs dataset, a reference to a dataset.", n.name())
	}
	e.Policy = r.text("policy", "main")
	if c.run.Policies[e.Policy] == nil && len(c.run.Policies) > 0 {
		c.errorf(r.at("policy"), "Unknown policy", "The run has no policy %q.%s It has %s.", e.Policy, didYouMean(e.Policy, sortedKeys(c.run.Policies)), listed(sortedKeys(c.run.Policies)))
	}
	if !c.tools(r, e.Tools) {
		e.Tools = c.run.Tools
	}
	if agent := c.agentNode(r, d.agent); agent != nil {
		e.Agent = c.agent(agent, e.Tools)
	}
	e.Sampling = c.sampling(merge(d.sampling, r.block("sampling")))
	e.Samples, e.Every = r.whole("samples", 1, 1), r.whole("every", 0, 0)
	const most = 100_000 // a slip, best told before memory runs out
	if e.Samples > most {
		c.errorf(r.at("samples"), "Value out of range", "samples must be at most %d, got %d.", most, e.Samples)
	}
	e.Metrics = slices.Clone(DefaultMetrics)
	if list, ok := r.texts("metrics"); ok {
		for _, m := range list {
			if !metricName.MatchString(m) {
				c.errorf(r.at("metrics"), "Invalid name", "%q is not the name of a metric: lower-case letters, digits, _, . and /.", m)
			}
		}
		e.Metrics = list
	}
	if b := r.block("answer_with"); b != nil {
		e.AnswerWith = c.answerWith(b)
	}
	r.done()
	return e
}

func (c *resolver) answerWith(n *node) *AnswerWith {
	r := c.read(n)
	a := &AnswerWith{}
	if v, ok := r.value("policy"); ok && v.Type() == cty.String {
		role := v.AsString()
		a.Role = role
		if a.Policy = c.run.Policies[role]; a.Policy == nil {
			c.errorf(r.at("policy"), "Unknown policy", "The run has no policy %q.%s", role, didYouMean(role, sortedKeys(c.run.Policies)))
		}
	} else if ok {
		if ref := r.referenceIn("policy", v, "policy"); ref != nil {
			a.Policy = c.policy(ref, "")
		}
	} else if !r.has("policy") {
		c.errorf(n.def, "Missing attribute", `answer_with needs policy: a role such as "answerer", or policy.x.`)
	}
	if agent := c.agentNode(r, nil); agent != nil {
		a.Agent = c.agent(agent, nil)
		if t := a.Agent.User; t != nil && !strings.Contains(t.Source(), "hits") && (a.Agent.System == nil || !strings.Contains(a.Agent.System.Source(), "hits")) {
			c.diags = append(c.diags, warningAt(n.def.Ptr(), "Answer without evidence", "The prompt of answer_with's agent does not show hits, so the answer is written without what the episode found."))
		}
	} else if !r.has("agent") {
		c.errorf(n.def, "Missing attribute", "answer_with needs agent, whose prompt asks for the answer.")
	}
	r.done()
	return a
}

func (c *resolver) guard(n *node) *Guard {
	r := c.read(n)
	g := &Guard{Name: n.label(), Range: n.def}
	g.When = c.expression(r, "when", c.s.scopes.guard, cty.Bool)
	if r.n.attrs["when"] == nil {
		c.errorf(n.def, "Missing attribute", "%s needs when, such as when = metrics[\"episode/searches\"] < 0.2.", n.name())
	}
	g.Action = r.choice("action", ActionWarn, ActionWarn, ActionCheckpoint, ActionStop)
	r.text("description", "")
	r.done()
	return g
}

func (c *resolver) checkpoint(r *reader) {
	cp := &c.run.Checkpoint
	*cp = Checkpoint{Keep: 2, Select: Select{Kind: SelectLast}}
	at := r
	if n := r.block("checkpoint"); n != nil {
		inner := c.read(n)
		cp.Every, cp.Keep = inner.whole("every", 0, 0), inner.whole("keep", 2, 1)
		if inner.has("select") {
			at = inner
		}
		c.selection(inner)
		inner.done()
	}
	if r.has("select") {
		if at != r {
			c.errorf(r.at("select"), "Conflicting attributes", "select is also given in the checkpoint block.")
		}
		c.selection(r)
	}
	sel := cp.Select
	if sel.Kind != SelectBest {
		return
	}
	e := c.evaluationNamed(sel.Evaluation)
	switch {
	case e == nil:
		var known []string
		for _, e := range c.run.Evaluations {
			known = append(known, e.Name)
		}
		c.errorf(at.at("select"), "Unknown evaluation", "There is no evaluate block %q.%s", sel.Evaluation, didYouMean(sel.Evaluation, known))
	case e.Every == 0:
		c.errorf(at.at("select"), "Nothing to select by", "The evaluation %q runs at the end only; give it every = N to select the best checkpoint by it.", sel.Evaluation)
	case !slices.Contains(e.Metrics, sel.Metric):
		c.errorf(at.at("select"), "Unknown metric", "The evaluation %q has no metric %q.%s It has %s.", sel.Evaluation, sel.Metric, didYouMean(sel.Metric, e.Metrics), strings.Join(e.Metrics, ", "))
	}
}

func (c *resolver) selection(r *reader) {
	v, ok := r.value("select")
	switch {
	case !ok:
	case v.Type().Equals(selectType):
		c.run.Checkpoint.Select = *v.EncapsulatedValue().(*Select)
	case v.Type() == cty.String && v.AsString() == SelectLast:
	default:
		r.wrong("select", `"last" or best("evaluation", "metric")`, v)
	}
}

func (c *resolver) evaluationNamed(name string) *Evaluation {
	for _, e := range c.run.Evaluations {
		if e.Name == name {
			return e
		}
	}
	return nil
}

func (c *resolver) runtime(r *reader) {
	n := r.block("runtime")
	if n == nil {
		return
	}
	inner := c.read(n)
	backend := inner.text("backend", "")
	if kind, _, _ := strings.Cut(backend, ":"); kind != "" && kind != "go" && kind != "xla" {
		c.errorf(inner.at("backend"), "Invalid value", "backend must be \"go\" or \"xla:/absolute/path/of/plugin.so\", got %q.", backend)
	}
	c.run.Runtime = Runtime{Backend: backend, MicroBatchTokens: inner.whole("micro_batch_tokens", 0, 1), Workers: inner.whole("workers", 0, 1)}
	inner.done()
}

// sourceValue is the expression name.value.
func (s *Study) sourceValue(name string, at hcl.Range) *Expression {
	x, _ := parseExpression(name+".value", at, s.deferred)
	return x
}

// newRun makes an empty run.
func newRun() *Run {
	return &Run{
		Policies: map[string]*Policy{}, Tools: map[string]*Tool{}, Agents: map[string]*Agent{}, Axes: map[string]string{},
		Corpora: map[string]*Corpus{}, Encoders: map[string]*Encoder{}, Indexes: map[string]*Index{}, Datasets: map[string]*Dataset{}, PolicyBlocks: map[string]*Policy{}, AgentBlocks: map[string]*Agent{},
	}
}
