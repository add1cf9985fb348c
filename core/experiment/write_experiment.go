package experiment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// agent gives the reference to an agent block, which is written at its first use.
func (w *writer) agent(a *Agent) string {
	data, err := json.Marshal(a)
	if err != nil { // agents hold texts and numbers only
		return "null"
	}
	if label, ok := w.agents[string(data)]; ok {
		return "agent." + label
	}
	label := a.Name
	if label == "" {
		label = "agent"
	}
	taken := func(l string) bool {
		for _, other := range w.agents {
			if other == l {
				return true
			}
		}
		return false
	}
	for base, n := label, 2; taken(label); n++ {
		label = fmt.Sprintf("%s_%d", base, n)
	}
	w.agents[string(data)] = label
	inner := &writer{run: w.run}
	inner.open("agent " + quote(label))
	inner.agentBody(a)
	inner.close()
	w.agentBlocks.WriteString(inner.out.String())
	return "agent." + label
}

func (w *writer) agentBody(a *Agent) {
	w.bool("chat_template", a.ChatTemplate)
	for _, t := range []struct {
		name string
		t    *Template
	}{{"system", a.System}, {"user", a.User}, {"observation", a.Observation}, {"invalid", a.Invalid}, {"limit", a.Limit}, {"closing", a.Closing}} {
		if t.t != nil {
			w.attr(t.name, `"`+t.t.Source()+`"`)
		}
	}
	w.whole("max_turns", a.MaxTurns)
	w.whole("max_searches", a.MaxSearches)
	w.text("on_budget", a.OnBudget)
	w.text("first_action", a.FirstAction)
	w.whole("max_prompt_tokens", a.MaxPromptTokens)
	w.whole("max_response_tokens", a.MaxResponseTokens)
	w.whole("max_observation_tokens", a.MaxObservationTokens)
	w.text("tool", a.Tool)
	w.texts("tools", a.Tools)
	w.open("turn_tokens")
	w.whole("first", a.TurnTokens.First)
	w.whole("next", a.TurnTokens.Next)
	w.whole("last", a.TurnTokens.Last)
	w.close()
	w.protocol(a.Protocol)
}

func (w *writer) pair(name string, p TagPair) {
	w.attr(name, "{ open = "+quote(p.Open)+", close = "+quote(p.Close)+" }")
}

func (w *writer) protocol(p Protocol) {
	w.open("protocol " + quote(p.Kind))
	switch {
	case p.Tags != nil:
		t := p.Tags
		w.pair("think", t.Think)
		if t.Call != (TagPair{}) {
			w.pair("call", t.Call)
		}
		w.pair("observation", t.Observation)
		w.pair("answer", t.Answer)
		w.bool("stop_at_answer", t.StopAtAnswer)
		w.bool("calls_in_think", t.CallsInThink)
		if t.Calls != nil {
			w.line("calls = {")
			for _, name := range sortedKeys(t.Calls) {
				w.pair(name, t.Calls[name])
			}
			w.line("}")
		}
	case p.JSON != nil:
		j := p.JSON
		w.pair("think", j.Think)
		w.pair("call", j.Call)
		w.pair("observation", j.Observation)
		w.pair("answer", j.Answer)
		w.text("name_key", j.NameKey)
		w.text("arguments_key", j.ArgsKey)
		w.text("finish_tool", j.FinishTool)
		w.text("finish_argument", j.FinishArg)
	case p.Fields != nil:
		f := p.Fields
		w.pair("marker", f.Marker)
		w.text("thought", f.Thought)
		w.text("tool", f.Tool)
		w.text("arguments", f.Arguments)
		w.text("completed", f.Completed)
		w.attr("finish_tool", quote(f.FinishTool))
		w.text("finish_argument", f.FinishArg)
		if f.Inline {
			w.attr("inline", "true")
		}
	}
	w.close()
}

func (w *writer) experiment() {
	r := w.run
	w.open("experiment " + quote(r.Arm))
	w.attr("seeds", fmt.Sprintf("[%d]", r.Seed))
	var policies, tools, agents []string
	for _, role := range sortedKeys(r.Policies) {
		policies = append(policies, role+" = "+w.ref(r.Policies[role].Handle))
	}
	w.attr("policies", "{ "+strings.Join(policies, ", ")+" }")
	for _, name := range sortedKeys(r.Tools) {
		tools = append(tools, name+" = tool."+name)
	}
	w.attr("tools", "{ "+strings.Join(tools, ", ")+" }")
	for _, name := range sortedKeys(r.Agents) {
		agents = append(agents, name+" = "+w.agent(r.Agents[name]))
	}
	if agents != nil {
		w.attr("agents", "{ "+strings.Join(agents, ", ")+" }")
	}
	if r.Agent != nil {
		w.attr("agent", w.agent(r.Agent))
	}
	if r.Deterministic != nil {
		w.bool("deterministic", *r.Deterministic)
	}
	w.sampling(r.Sampling)
	var stages []string
	for _, s := range r.Stages {
		stages = append(stages, s.Name)
	}
	if stages != nil {
		w.texts("stages", stages)
	}
	for _, s := range r.Stages {
		w.stage(s)
	}
	for _, e := range r.Evaluations {
		w.evaluation(e)
	}
	for _, g := range r.Guards {
		w.open("guard " + quote(g.Name))
		w.attr("when", g.When.Text())
		w.text("action", g.Action)
		w.close()
	}
	w.open("checkpoint")
	w.whole("every", r.Checkpoint.Every)
	w.whole("keep", r.Checkpoint.Keep)
	if sel := r.Checkpoint.Select; sel.Kind == SelectBest {
		w.attr("select", "best("+quote(sel.Evaluation)+", "+quote(sel.Metric)+")")
	}
	w.close()
	if r.Runtime != (Runtime{}) {
		w.open("runtime")
		w.text("backend", r.Runtime.Backend)
		w.whole("micro_batch_tokens", r.Runtime.MicroBatchTokens)
		w.whole("workers", r.Runtime.Workers)
		w.close()
	}
	w.close()
}

func (w *writer) sampling(s Sampling) {
	w.open("sampling")
	w.number("temperature", s.Temperature)
	w.number("top_p", s.TopP)
	w.attr("top_k", fmt.Sprint(s.TopK))
	w.bool("greedy", s.Greedy)
	w.close()
}

func (w *writer) optimizer(o Optimizer) {
	w.open("optimizer " + quote(o.Kind))
	w.number("learning_rate", o.LearningRate)
	w.attr("betas", numberList(o.Betas[:]))
	w.number("eps", o.Eps)
	w.number("weight_decay", o.WeightDecay)
	w.number("clip_norm", o.ClipNorm)
	w.close()
}

func (w *writer) schedule(s Schedule) {
	w.open("schedule " + quote(s.Kind))
	w.attr("warmup_steps", fmt.Sprint(s.Warmup))
	w.bool("from_zero", s.FromZero)
	if s.AfterWarmup {
		w.bool("after_warmup", true)
	}
	if s.Kind != "constant" {
		w.number("final", s.Final)
	}
	w.close()
}

func (w *writer) stage(s *Stage) {
	w.open("stage " + quote(s.Name))
	if s.Policy != "main" {
		w.text("policy", s.Policy)
	}
	if s.Train != nil {
		w.attr("train", w.ref(s.Train.Handle))
	}
	if s.Experts != nil {
		w.attr("experts", w.ref(s.Experts.Handle))
	}
	if s.Annotations != nil {
		var refs []string
		for _, name := range s.Annotations {
			refs = append(refs, "artefact."+name)
		}
		w.attr("annotations", "["+strings.Join(refs, ", ")+"]")
	}
	w.attr("agent", w.agent(s.Agent))
	w.whole("steps", s.Steps)
	w.whole("questions", s.Questions)
	w.texts("produce", s.Produce)
	w.text("optimizer_state", s.OptimizerState)
	w.sampling(s.Sampling)
	if s.Optimizer.Kind != "" {
		w.optimizer(s.Optimizer)
	}
	w.schedule(s.Schedule)
	if s.Critic != nil {
		w.open("critic")
		w.optimizer(s.Critic.Optimizer)
		w.schedule(s.Critic.Schedule)
		w.close()
	}
	if s.Reward != nil {
		w.reward(s.Reward)
	}
	w.plugin(s.Algorithm, "algorithm")
	w.close()
}

func (w *writer) reward(r *Reward) {
	w.open("reward")
	for _, s := range r.Sources {
		w.open("source " + quote(s.Name))
		w.plugin(s.Plugin, "reward")
		w.close()
	}
	w.attr("total", r.Total.Text())
	if r.TurnTotal != nil {
		w.attr("turn_total", r.TurnTotal.Text())
	}
	w.close()
}

func (w *writer) evaluation(e *Evaluation) {
	w.open("evaluate " + quote(e.Name))
	if e.Dataset != nil {
		w.attr("dataset", w.ref(e.Dataset.Handle))
	}
	w.text("policy", e.Policy)
	w.attr("agent", w.agent(e.Agent))
	own := slices.ContainsFunc(sortedKeys(e.Tools), func(name string) bool { return e.Tools[name] != w.run.Tools[name] })
	if own || len(e.Tools) != len(w.run.Tools) {
		var tools []string
		for _, name := range sortedKeys(e.Tools) {
			label := name
			if e.Tools[name] != w.run.Tools[name] {
				label = e.Name + "_" + name
			}
			tools = append(tools, name+" = tool."+label)
		}
		w.attr("tools", "{ "+strings.Join(tools, ", ")+" }")
	}
	w.whole("samples", e.Samples)
	w.whole("every", e.Every)
	w.texts("metrics", e.Metrics)
	w.sampling(e.Sampling)
	if e.AnswerWith != nil {
		w.open("answer_with")
		if e.AnswerWith.Role != "" {
			w.text("policy", e.AnswerWith.Role)
		} else {
			w.attr("policy", w.ref(e.AnswerWith.Policy.Handle))
		}
		w.attr("agent", w.agent(e.AnswerWith.Agent))
		w.close()
	}
	w.close()
}
