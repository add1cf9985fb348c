package experiment

import (
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/forage-rl/forage/core/sdk"
)

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

func without(list []string, name string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == name })
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
	c.stagePolicy(r, s)
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
		c.errorf(n.def, "Missing block", "%s needs a block algorithm \"…\" that names its plugin.%s", n.name(), didYouMean(s.Name, without(labelsOf(d.run.n, "stage"), s.Name)))
	}
	s.Steps, s.Questions = r.whole("steps", 0, 1), r.whole("questions", 0, 1)
	const most = 10_000_000 // a slip, best told before memory runs out
	if s.Questions > most {
		c.errorf(r.at("questions"), "Value out of range", "questions must be at most %d, got %d.", most, s.Questions)
	}
	for _, name := range []string{"steps", "questions"} {
		if !r.has(name) {
			c.errorf(n.def, "Missing attribute", "%s needs %s.", n.name(), map[string]string{"steps": "steps, its number of training steps", "questions": "questions, the number of questions per step"}[name])
		}
	}
	s.Produce = c.produce(r)
	s.OptimizerState = r.choice("optimizer_state", "fresh", "fresh", "keep")
	optimizer, schedule, critic := single(d.optimizer, r.block("optimizer")), single(d.schedule, r.block("schedule")), merge(d.critic, r.block("critic"))
	if p := c.run.Policies[s.Policy]; optimizer == nil && p != nil && p.Optimizer != nil {
		s.Optimizer = *p.Optimizer
	} else if len(s.Produce) == 0 {
		if optimizer == nil {
			c.errorf(n.def, "Missing block", "%s needs a block optimizer \"adamw\" with a learning_rate, here, in the experiment or in the policy.", n.name())
		} else {
			s.Optimizer = c.optimizer(optimizer, true)
		}
	}
	if over := c.overlays["policies."+s.Policy+".optimizer"]; over != nil && len(s.Produce) == 0 {
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
	if s.Algorithm != nil && s.Algorithm.uses != nil {
		c.heeds(s, *s.Algorithm.uses, critic)
	}
	return s
}

// heeded is a setting of stages, and whether the algorithm of any of them takes it: what is said for several stages may
// be meant for one.
type heeded struct {
	at   hcl.Range // the first one
	by   []string  // algorithms
	used bool
}

// heeds notes what the algorithm of a stage takes from it, and refuses an agent whose episodes it cannot read.
func (c *resolver) heeds(s *Stage, uses []sdk.Use, critic *node) {
	note := func(at hcl.Range, what string, use sdk.Use) {
		h, known := c.heeded[what]
		if !known {
			h.at = at
		}
		h.used = h.used || slices.Contains(uses, use)
		if label := quote(s.Algorithm.Label); !slices.Contains(h.by, label) {
			h.by = append(h.by, label)
		}
		c.heeded[what] = h
	}
	if critic != nil {
		note(critic.def, "critic", sdk.UseCritic)
	}
	if s.Reward != nil && s.Reward.TurnTotal != nil {
		note(s.Reward.TurnTotal.Range(), "turn_total", sdk.UseTurnRewards)
	}
	if s.Agent != nil && s.Agent.Protocol.Kind != "" && s.Agent.Protocol.Fields == nil && slices.Contains(uses, sdk.UseHops) {
		c.errorf(s.Algorithm.Range, "Wrong protocol", "The algorithm %q learns hop by hop, from prompts that are made anew for each: it needs an agent of protocol \"fields\", and that of stage.%s has protocol %q.",
			s.Algorithm.Label, s.Name, s.Agent.Protocol.Kind)
	}
}

// unheeded warns of settings that no stage with them takes.
func (c *resolver) unheeded() {
	for _, what := range sortedKeys(c.heeded) {
		if h := c.heeded[what]; !h.used {
			c.diags = append(c.diags, warningAt(h.at.Ptr(), "Setting without effect", "%s has no effect: of the algorithms that it is for (%s), none takes one as it is configured.", what, strings.Join(h.by, ", ")))
		}
	}
}

// stagePolicy reads the role of the policy that the stage trains, or samples from where it produces.
func (c *resolver) stagePolicy(r *reader, s *Stage) {
	s.Policy = r.text("policy", "main")
	p := c.run.Policies[s.Policy]
	switch {
	case len(c.run.Policies) == 0: // said elsewhere
	case p == nil:
		c.errorf(r.at("policy"), "Unknown policy", "The run has no policy %q.%s It has %s.", s.Policy, didYouMean(s.Policy, sortedKeys(c.run.Policies)), listed(sortedKeys(c.run.Policies)))
	case p.Frozen && !r.has("produce"):
		at := r.at("policy")
		if !r.has("policy") {
			at = s.Range
		}
		why, remedy := "is frozen", "train another, or remove frozen = true"
		if p.Endpoint != nil {
			why, remedy = "is a model behind a service, which is never trained", "it can be asked in evaluations, and by stages that produce"
		}
		c.errorf(at, "Frozen policy", "%s trains the policy %s, but %s %s: %s.", r.n.name(), s.Policy, p.Handle, why, remedy)
	}
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
		s.Final, s.AfterWarmup = r.number("final", 0, 0, 1), r.bool("after_warmup", false)
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
	case r.n.attrs["total"] != nil && !r.n.attrs["total"].null():
	case len(sources) == 1:
		v.Total = c.s.sourceValue(sources[0], n.def)
	default:
		c.errorf(n.def, "Missing attribute", "With several sources reward needs total, such as total = %s.value.", strings.Join(sources, ".value + "))
	}
	r.done()
	return v
}
