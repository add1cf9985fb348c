package experiment

import (
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/forage-rl/forage/core/sdk"
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
	if len(stages) == 0 && len(evaluations) == 0 {
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
	if policy := run.Policies["main"]; policy != nil && len(stages) > 0 {
		if policy.Frozen {
			c.errorf(r.at("policies"), "Frozen policy", "The run trains the policy main, but %s is frozen.", policy.Handle)
		}
	}
	c.artefact = map[string]bool{}
	for _, stage := range stages {
		s := c.stage(stage, defaults)
		run.Stages = append(run.Stages, s)
		for _, name := range s.Produce {
			c.artefact[name] = true
		}
	}
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
			c.errorf(a.axis.PathRange, "Path not found", "The axis %q leads to %s, but arm %q has no %q in %s.%s Correct the path, or name the arms that have it: arms = [...].",
				a.axis.Name, a.axis.Path, c.arm, key, name, didYouMean(key, sortedKeys(refs)))
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

// stageDefaults are what stages and evaluations build on.
type stageDefaults struct {
	run       *reader
	agent     *node
	sampling  *node
	optimizer *node
	schedule  *node
	critic    *node
	reward    *node
	train     *blockRef
	experts   *blockRef
}

func (d *stageDefaults) read(c *resolver) {
	r := d.run
	d.sampling, d.optimizer, d.schedule = r.block("sampling"), r.block("optimizer"), r.block("schedule")
	d.critic, d.reward = r.block("critic"), r.block("reward")
	d.train, d.experts = r.reference("train", "dataset", "artefact"), r.reference("experts", "dataset", "artefact")
}

// single merges a block that is there once over its default; another label replaces it.
func single(base, over *node) *node {
	if base != nil && over != nil && over.replaces(base) {
		return over
	}
	return merge(base, over)
}

func (c *resolver) stage(n *node, d stageDefaults) *Stage {
	r := c.read(n)
	s := &Stage{Name: n.label(), Policy: "main", Range: n.def}
	train, experts := d.train, d.experts
	if r.attr("train") != nil {
		train = r.reference("train", "dataset", "artefact")
	}
	if r.attr("experts") != nil {
		experts = r.reference("experts", "dataset", "artefact")
	}
	s.Train, s.Experts = c.questions(r, train, "train"), c.questions(r, experts, "experts")
	if train == nil && !r.has("train") && !d.run.has("train") && !c.method {
		c.errorf(n.def, "Missing attribute", "%s needs train, a reference to a dataset, here or in the experiment.", n.name())
	}
	s.Annotations = c.annotations(r)
	if agent := c.agentNode(r, d.agent); agent != nil {
		s.Agent = c.agent(agent, c.run.Tools)
	}
	s.Sampling = c.sampling(merge(d.sampling, r.block("sampling")))
	if algorithm := r.block("algorithm"); algorithm != nil {
		s.Algorithm = c.plugin(algorithm, sdk.KindAlgorithm)
	} else {
		c.errorf(n.def, "Missing block", "%s needs a block algorithm \"…\" that names its plugin.", n.name())
	}
	s.Steps, s.Questions = r.whole("steps", 0, 1), r.whole("questions", 0, 1)
	for _, name := range []string{"steps", "questions"} {
		if !r.has(name) {
			c.errorf(n.def, "Missing attribute", "%s needs %s.", n.name(), map[string]string{"steps": "steps, its number of training steps", "questions": "questions, the number of questions per step"}[name])
		}
	}
	s.Produce = c.produce(r)
	s.OptimizerState = r.choice("optimizer_state", "fresh", "fresh", "keep")
	optimizer, schedule, critic := single(d.optimizer, r.block("optimizer")), single(d.schedule, r.block("schedule")), merge(d.critic, r.block("critic"))
	if main := c.run.Policies["main"]; optimizer == nil && main != nil && main.Optimizer != nil {
		s.Optimizer = *main.Optimizer
	} else if len(s.Produce) == 0 {
		if optimizer == nil {
			c.errorf(n.def, "Missing block", "%s needs a block optimizer \"adamw\" with a learning_rate, here, in the experiment or in the policy.", n.name())
		} else {
			s.Optimizer = c.optimizer(optimizer, true)
		}
	}
	if over := c.overlays["policies.main.optimizer"]; over != nil && len(s.Produce) == 0 {
		s.Optimizer = c.optimizer(single(optimizer, over.find("optimizer")), true)
	}
	s.Schedule = c.schedule(schedule)
	if critic != nil {
		s.Critic = c.critic(critic, optimizer, schedule)
	}
	if reward := merge(d.reward, r.block("reward")); reward != nil {
		s.Reward = c.reward(reward)
	}
	r.done()
	return s
}

// questions resolves a dataset of a stage; an artefact must come from an earlier one.
func (c *resolver) questions(r *reader, ref *blockRef, name string) *Dataset {
	if ref == nil {
		return nil
	}
	d := c.dataset(ref)
	for _, part := range parts(d) {
		if part.Artefact != "" && !c.artefact[part.Artefact] {
			c.errorf(r.at(name), "Unknown artefact", "No earlier stage produces the artefact %q.%s", part.Artefact, didYouMean(part.Artefact, sortedKeys(c.artefact)))
		}
	}
	return d
}

func parts(d *Dataset) []*Dataset {
	if d == nil {
		return nil
	}
	list := []*Dataset{d}
	for _, inner := range d.Concat {
		list = append(list, parts(inner)...)
	}
	return list
}

func (c *resolver) annotations(r *reader) []string {
	v, ok := r.value("annotations")
	if !ok {
		return nil
	}
	elements := []cty.Value{v}
	if isList(v) {
		elements, _ = r.list("annotations")
	}
	var list []string
	for _, element := range elements {
		ref := r.referenceIn("annotations", element, "artefact")
		if ref == nil {
			continue
		}
		if !c.artefact[ref.Name] {
			c.errorf(r.at("annotations"), "Unknown artefact", "No earlier stage produces the artefact %q.%s", ref.Name, didYouMean(ref.Name, sortedKeys(c.artefact)))
		}
		list = append(list, ref.Name)
	}
	return list
}

// produce reads one name or a list of names.
func (c *resolver) produce(r *reader) []string {
	v, ok := r.value("produce")
	if !ok {
		return nil
	}
	list := []string{}
	if v.Type() == cty.String {
		list = append(list, v.AsString())
	} else if list, ok = r.texts("produce"); !ok {
		return nil
	}
	for _, name := range list {
		if !names.MatchString(name) {
			c.errorf(r.at("produce"), "Invalid name", "The artefact name %q cannot be used in references: a lower-case letter, then lower-case letters, digits and _.", name)
		}
		if c.artefact[name] {
			c.errorf(r.at("produce"), "Duplicate artefact", "An earlier stage already produces %q.", name)
		}
	}
	return list
}

func (c *resolver) sampling(n *node) Sampling {
	if n == nil {
		return Sampling{Temperature: 1, TopP: 1}
	}
	r := c.read(n)
	s := Sampling{Temperature: r.number("temperature", 1, 0, 100), TopP: r.number("top_p", 1, 0, 1), TopK: r.whole("top_k", 0, 0), Greedy: r.bool("greedy", false)}
	if s.Temperature == 0 {
		s.Greedy = true
	}
	if s.Greedy {
		s = Sampling{Temperature: 1, TopP: 1, Greedy: true} // the others have no effect
	}
	if s.TopP == 0 {
		c.errorf(r.at("top_p"), "Value out of range", "top_p must be greater than 0; for the likeliest token write greedy = true.")
	}
	r.done()
	return s
}

func (c *resolver) optimizer(n *node, complete bool) Optimizer {
	r := c.read(n)
	o := Optimizer{Kind: n.label(), Betas: [2]float64{0.9, 0.999}}
	if !c.labels(n, 1, `"adamw"`) {
		return o
	}
	if o.Kind != "adamw" {
		c.errorf(n.def, "Unknown optimizer", "There is no optimizer %q.%s The only one is adamw.", o.Kind, didYouMean(o.Kind, []string{"adamw"}))
		return o
	}
	o.LearningRate = r.number("learning_rate", 0, 0, math.Inf(1))
	if complete && !r.has("learning_rate") {
		c.errorf(n.def, "Missing attribute", "optimizer \"adamw\" needs learning_rate.")
	}
	if betas, ok := r.numbers("betas"); ok {
		if len(betas) != 2 || slices.Min(betas) < 0 || slices.Max(betas) >= 1 {
			c.errorf(r.at("betas"), "Invalid value", "betas must be two numbers of at least 0 and below 1, such as [0.9, 0.999].")
		} else {
			o.Betas = [2]float64(betas)
		}
	}
	o.Eps = r.above("eps", 1e-8)
	o.WeightDecay, o.ClipNorm = r.number("weight_decay", 0.01, 0, math.Inf(1)), r.number("clip_norm", 1, 0, math.Inf(1))
	r.done()
	return o
}

func (c *resolver) schedule(n *node) Schedule {
	if n == nil {
		return Schedule{Kind: "constant", Final: 1}
	}
	kinds := []string{"constant", "linear", "cosine"}
	s := Schedule{Kind: n.label(), Final: 1}
	if !c.labels(n, 1, strings.Join(kinds, ", ")) {
		return s
	}
	if !slices.Contains(kinds, s.Kind) {
		c.errorf(n.def, "Unknown schedule", "There is no schedule %q.%s The schedules are %s.", s.Kind, didYouMean(s.Kind, kinds), strings.Join(kinds, ", "))
		return s
	}
	r := c.read(n)
	s.Warmup, s.FromZero = r.whole("warmup_steps", 0, 0), r.bool("from_zero", false)
	if s.Kind != "constant" {
		s.Final = r.number("final", 0, 0, 1)
	}
	r.done()
	return s
}

func (c *resolver) critic(n, optimizer, schedule *node) *Critic {
	r := c.read(n)
	v := &Critic{}
	if o := single(optimizer, r.block("optimizer")); o != nil {
		v.Optimizer = c.optimizer(o, true)
	} else {
		c.errorf(n.def, "Missing block", `critic needs a block optimizer "adamw" with a learning_rate.`)
	}
	v.Schedule = c.schedule(single(schedule, r.block("schedule")))
	r.done()
	return v
}

func (c *resolver) reward(n *node) *Reward {
	r := c.read(n)
	v := &Reward{Range: n.def}
	var sources []string
	for _, b := range r.blocks("source") {
		if !c.labels(b, 1, "the name that expressions use") {
			continue
		}
		name := b.label()
		sources = append(sources, name)
		s := c.read(b)
		if plugin := s.block("reward"); plugin != nil {
			v.Sources = append(v.Sources, Source{name, c.plugin(plugin, sdk.KindReward)})
		} else {
			c.errorf(b.def, "Missing block", "%s needs a block reward \"…\" that names its plugin.", b.name())
		}
		s.done()
		_, turnScope := c.s.scopes.rewards(nil)
		_, taken := turnScope.sample[name]
		if !names.MatchString(name) || taken || slices.Contains([]string{"var", "local", "seed", "artefact"}, name) || slices.Contains(blockKinds, name) {
			c.errorf(b.def, "Invalid name", "A reward source cannot be called %q: expressions need a name of its own, a lower-case letter, then lower-case letters, digits and _.", name)
		}
	}
	slices.SortFunc(v.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	if len(sources) == 0 {
		c.errorf(n.def, "Missing block", "reward needs at least one source \"name\" { reward \"plugin\" {} }.")
		r.attr("total")
		r.attr("turn_total")
		r.done()
		return v
	}
	slices.Sort(sources)
	total, turnTotal := c.s.scopes.rewards(sources)
	v.Total = c.expression(r, "total", total, cty.Number)
	v.TurnTotal = c.expression(r, "turn_total", turnTotal, cty.Number)
	switch {
	case r.n.attrs["total"] != nil:
	case len(sources) == 1:
		v.Total = c.s.sourceValue(sources[0], n.def)
	default:
		c.errorf(n.def, "Missing attribute", "With several sources reward needs total, such as total = %s.value.", strings.Join(sources, ".value + "))
	}
	r.done()
	return v
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
	c.run.Runtime = Runtime{Backend: inner.text("backend", ""), MicroBatchTokens: inner.whole("micro_batch_tokens", 0, 1), Workers: inner.whole("workers", 0, 1)}
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
		Corpora: map[string]*Corpus{}, Encoders: map[string]*Encoder{}, Indexes: map[string]*Index{}, Datasets: map[string]*Dataset{}, PolicyBlocks: map[string]*Policy{},
	}
}
