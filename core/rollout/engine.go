package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Engine runs episodes of one policy. It is safe for use by one caller at a time.
type Engine struct {
	Sampler   Sampler
	Tokenizer Tokenizer
	Tools     Tools
	// Kept is shared by the engines of one sampler. Without, an engine has its own.
	Kept *Kept
}

// Kept remembers which rows of a sampler belong to episodes that are kept for branches (see [Job]). The zero value
// remembers none.
type Kept struct {
	rows      int64            // handed out so far
	byEpisode map[string]int64 // the row of each
}

// Forget drops what was computed of all episodes, those that were kept included. What follows is then the same in every
// bit whatever came before.
func (e *Engine) Forget() error {
	if e.Kept != nil {
		clear(e.Kept.byEpisode)
	}
	return e.Sampler.Forget()
}

// Job asks for one episode.
type Job struct {
	ID       string
	Question episode.Question
	Agent    *Agent
	Sampling sdk.Sampling
	Key      rng.Key
	// From is an episode to go on from, just after its turn AfterTurn (-1: after its prompt). Its prompt, tokens and
	// counters are taken over; Question must be its own.
	From      *Episode
	AfterTurn int
	// MaxNewTurns ends the episode after that many turns of the policy; 0 means no bound.
	MaxNewTurns int
	// NoTools lets the policy only answer: its first turn is the closing one.
	NoTools bool
	// Evidence are hits that the prompt shows as found, for an agent that answers from them.
	Evidence []episode.Hit
	// Keep says that later jobs will go on from this episode, so that what was computed of it should be kept.
	Keep bool
}

// live is an episode in the making.
type live struct {
	job     Job
	ep      *Episode
	text    *segmenter
	row     int64 // of the sampler
	turns   int   // turns that did not end the episode
	fresh   int   // turns sampled by this job
	closing bool
	done    bool
}

// Run carries the jobs out in lock-step: one turn of all, then their tool calls in one batch per tool. Episodes come
// back in the order of jobs. All jobs share their sampling parameters.
func (e *Engine) Run(ctx context.Context, jobs []Job) ([]*Episode, error) {
	if e.Kept == nil {
		e.Kept = &Kept{}
	}
	lives := make([]*live, len(jobs))
	defer func() {
		for _, l := range lives {
			if l != nil {
				e.Sampler.Release(l.row)
			}
		}
	}()
	for i, job := range jobs {
		if job.Sampling != jobs[0].Sampling {
			return nil, fmt.Errorf("rollout: job %s: the jobs of one call must share their sampling parameters", job.ID)
		}
		l, err := e.start(job)
		if err != nil {
			return nil, fmt.Errorf("rollout: episode %s of question %s: %w", job.ID, job.Question.ID, err)
		}
		l.row = e.Kept.row()
		if row, kept := e.Kept.byEpisode[parentID(job)]; kept && !job.Agent.anew() {
			e.Sampler.Fork(row, l.row, l.text.length())
		}
		lives[i] = l
	}
	if err := e.firstSearches(ctx, lives); err != nil {
		return nil, err
	}
	for {
		active := slices.DeleteFunc(slices.Clone(lives), func(l *live) bool { return l.done })
		if len(active) == 0 {
			break
		}
		if err := e.turn(ctx, active); err != nil {
			return nil, err
		}
		for _, l := range active {
			if l.done {
				if err := e.retire(l); err != nil {
					return nil, fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
				}
			}
		}
	}
	episodes := make([]*Episode, len(lives))
	for i, l := range lives {
		l.ep.Counters = count(l.ep.Episode)
		episodes[i] = l.ep
	}
	return episodes, nil
}

func (k *Kept) row() int64 {
	k.rows++
	return k.rows
}

func parentID(job Job) string {
	if job.From == nil {
		return ""
	}
	return job.From.ID
}

// retire gives the row of an episode that has ended back, so that it costs the others no time.
func (e *Engine) retire(l *live) error {
	if !l.job.Keep || l.job.Agent.anew() {
		e.Sampler.Release(l.row)
		return nil
	}
	if e.Kept.byEpisode == nil {
		e.Kept.byEpisode = map[string]int64{}
	}
	e.Kept.byEpisode[l.ep.ID] = l.row
	length := l.text.length()
	if last := len(l.ep.Turns) - 1; last >= 0 && l.ep.Stop == episode.StopAnswered {
		length = l.ep.Turns[last].Span.Start // nothing goes on from an answer
	}
	return e.Sampler.Park(l.row, length)
}

// start renders the prompt, or takes over the beginning of another episode.
func (e *Engine) start(job Job) (*live, error) {
	if err := job.Agent.Check(); err != nil {
		return nil, err
	}
	l := &live{job: job}
	if job.From != nil {
		ep, err := branch(job.From, job.AfterTurn, job.Agent.anew())
		if err != nil {
			return nil, err
		}
		l.ep = ep
		l.turns = counted(ep.Turns)
		l.closing = closed(job.Agent, ep.Turns)
	} else if job.Agent.anew() {
		l.ep = &Episode{}
	} else {
		ep, err := e.Prompt(job.Question, job.Agent, job.Evidence)
		if err != nil {
			return nil, err
		}
		l.ep = ep
	}
	l.ep.ID, l.ep.QuestionID, l.ep.Key, l.ep.Origin = job.ID, job.Question.ID, job.Key, episode.OriginPolicy
	l.closing = l.closing || job.NoTools || len(job.Agent.Tools) == 0
	if job.Agent.anew() && job.Agent.OnBudget == OnBudgetStop && job.Agent.exhausted(l.turns, searches(l.ep.Turns)) {
		l.end(episode.StopBudget)
	}
	if !job.Agent.anew() {
		l.text = newSegmenter(e.Tokenizer, l.ep)
	}
	return l, nil
}

// newTurn gives an episode whose agent renders its prompt anew the prompt of its next turn. Without room for it the
// episode ends.
func (e *Engine) newTurn(l *live) error {
	agent := l.job.Agent
	limit := e.Sampler.MaxContext() - 1
	if agent.MaxPromptTokens > 0 {
		limit = min(limit, agent.MaxPromptTokens)
	}
	tokens, ok, err := e.historyPrompt(l.job.Question, agent, slices.Concat(shown(l.job.Evidence), l.ep.Turns), l.closing, limit)
	if err != nil {
		return err
	}
	if !ok && len(l.ep.Turns) == 0 {
		return fmt.Errorf("the prompt has %d tokens, it may have %d", len(tokens), limit)
	}
	if !ok {
		l.end(episode.StopLength)
		return nil
	}
	l.text = newSequence(e.Tokenizer, l.ep, tokens)
	return nil
}

// Fitting is how many of the hits, from the first on, an agent's prompt can show beside its answer, given the agent's
// limits and the policy's context. Where not even the question fits it is an error.
func (e *Engine) Fitting(q episode.Question, agent *Agent, evidence []episode.Hit) (int, error) {
	limit := e.Sampler.MaxContext() - agent.TurnTokens.Last
	if agent.MaxPromptTokens > 0 {
		limit = min(limit, agent.MaxPromptTokens)
	}
	for n := len(evidence); ; n-- {
		tokens, err := e.prompt(q, agent, shown(evidence[:n]), 0, false)
		if err != nil {
			return 0, err
		}
		if len(tokens) <= limit {
			return n, nil
		}
		if n == 0 {
			return 0, fmt.Errorf("the prompt has %d tokens without any evidence, %d are left beside turn_tokens.last = %d", len(tokens), limit, agent.TurnTokens.Last)
		}
	}
}

// shown is a history that only has hits.
func shown(evidence []episode.Hit) []episode.Turn {
	if len(evidence) == 0 {
		return nil
	}
	return []episode.Turn{{Hits: evidence}}
}

// Prompt makes an episode that holds only its prompt, which shows the evidence as found.
func (e *Engine) Prompt(q episode.Question, agent *Agent, evidence []episode.Hit) (*Episode, error) {
	tokens, err := e.prompt(q, agent, shown(evidence), 0, false)
	if err != nil {
		return nil, err
	}
	if agent.MaxPromptTokens > 0 && len(tokens) > agent.MaxPromptTokens {
		return nil, tooLong(len(tokens), agent)
	}
	ep := &Episode{}
	newSequence(e.Tokenizer, ep, tokens)
	return ep, nil
}

func (e *Engine) controls(agent *Agent) []string {
	return append(agent.Protocol.Controls(), e.Tokenizer.SpecialTokens()...)
}

func questionVars(q episode.Question) map[string]any {
	metadata := q.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	return map[string]any{"id": q.ID, "text": q.Text, "type": q.Type, "hops": q.Hops, "metadata": metadata}
}

// turnVars is what observation, invalid, limit and closing texts see. done and called are the turns that the policy
// has written and the calls that were carried out; number counts turns from 1; turns_left and searches_left are 0
// where there is no bound.
func turnVars(q episode.Question, agent *Agent, done, called, number int, turn *episode.Turn, hits []episode.Hit) map[string]any {
	return map[string]any{
		"question": questionVars(q), "hits": hitVars(hits), "tool": turn.Tool, "query": turn.Query(),
		"arguments": argumentsText(turn), "error": turn.Error, "turn": number, "searches": called,
		"turns_left": max(0, agent.MaxTurns-done), "searches_left": max(0, agent.MaxSearches-called),
	}
}

func (l *live) vars(number int, turn *episode.Turn, hits []episode.Hit) map[string]any {
	return turnVars(l.job.Question, l.job.Agent, l.turns, searches(l.ep.Turns), number, turn, hits)
}

// exhausted says whether the budget leaves no further call.
func (a *Agent) exhausted(turns, searches int) bool {
	return a.MaxTurns > 0 && turns >= a.MaxTurns || a.MaxSearches > 0 && searches >= a.MaxSearches
}

// closed says whether the turns leave only the closing one.
func closed(a *Agent, turns []episode.Turn) bool {
	if a.OnBudget == OnBudgetClose {
		return a.exhausted(counted(turns), searches(turns))
	}
	for _, t := range turns {
		if t.Action == episode.ActionCall && !t.Executed && t.Error == "" {
			return true // it was answered by the limit text
		}
	}
	return false
}

func searches(turns []episode.Turn) (n int) {
	for _, t := range turns {
		if t.Action == episode.ActionCall && t.Executed {
			n++
		}
	}
	return n
}

// firstSearches carries out the calls that agents make before the policy speaks.
func (e *Engine) firstSearches(ctx context.Context, lives []*live) error {
	var calls []*call
	for _, l := range lives {
		if l.job.Agent.FirstSearch && len(l.ep.Turns) == 0 && !l.job.NoTools {
			at := episode.Span{}
			if l.text != nil {
				at = episode.Span{Start: l.text.length(), End: l.text.length()}
			}
			l.ep.Turns = append(l.ep.Turns, firstTurn(l.job.Question, l.job.Agent, at))
			calls = append(calls, &call{live: l, turn: len(l.ep.Turns) - 1})
		}
	}
	return e.call(ctx, calls)
}

// firstTurn is the search that an agent makes before the policy speaks.
func firstTurn(q episode.Question, agent *Agent, at episode.Span) episode.Turn {
	tool, arguments := agent.called(Action{Arguments: map[string]any{"query": q.Text}, Plain: true})
	return episode.Turn{Span: at, ActionSpan: at, Action: episode.ActionCall, Tool: tool, Arguments: arguments}
}

// turn lets every active episode write once and act.
func (e *Engine) turn(ctx context.Context, active []*live) error {
	var rows []Row
	var writing []*live
	for _, l := range active {
		if l.job.Agent.anew() {
			if err := e.newTurn(l); err != nil {
				return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
			}
		}
		bound, ok := e.bound(l)
		if !ok {
			l.end(episode.StopLength)
			continue
		}
		decode, text, seen := e.Tokenizer.Decoder(), "", 0
		protocol := l.job.Agent.Protocol
		rows = append(rows, Row{
			ID: l.row, Tokens: l.ep.Tokens[l.text.sequence], MaxNew: bound, Key: l.job.Key.With(uint64(len(l.ep.Turns))), Ends: protocol.Ends(),
			Segments: l.ep.Sequences[l.text.sequence].Segments,
			Stop: func(tokens []int32) bool {
				from := len(text)
				for ; seen < len(tokens); seen++ {
					text += decode(tokens[seen])
				}
				return protocol.Stopped(text, len(text)-from)
			},
		})
		writing = append(writing, l)
	}
	if len(rows) == 0 {
		return nil
	}
	generated, err := e.Sampler.Generate(ctx, rows, writing[0].job.Sampling)
	if err != nil {
		return fmt.Errorf("rollout: sampling: %w", err)
	}
	var calls []*call
	for i, l := range writing {
		c, err := e.act(l, generated[i])
		if err != nil {
			return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
		}
		if c != nil {
			calls = append(calls, c)
		}
	}
	if err := e.call(ctx, calls); err != nil {
		return err
	}
	for _, l := range writing {
		if l.job.MaxNewTurns > 0 && l.fresh >= l.job.MaxNewTurns && !l.done {
			l.end(episode.StopBudget)
		}
	}
	return nil
}

// bound is how many tokens the next turn may have; false when there is no room for any.
func (e *Engine) bound(l *live) (int, bool) {
	if l.done {
		return 0, false
	}
	agent, length := l.job.Agent, l.text.length()
	bound := agent.TurnTokens.Next
	switch {
	case l.closing:
		bound = agent.TurnTokens.Last
	case counted(l.ep.Turns) == 0:
		bound = agent.TurnTokens.First
	}
	if agent.MaxResponseTokens > 0 {
		bound = min(bound, agent.MaxResponseTokens-(length-l.ep.Sequences[l.text.sequence].PromptLength))
	}
	bound = min(bound, e.Sampler.MaxContext()-length)
	return bound, bound > 0
}

// act records what the policy wrote and decides what follows. It returns a call to carry out, if any.
func (e *Engine) act(l *live, g Generated) (*call, error) {
	if len(g.Tokens) == 0 || len(g.Tokens) != len(g.LogProbs) {
		return nil, fmt.Errorf("the sampler gave %d tokens and %d log-probabilities", len(g.Tokens), len(g.LogProbs))
	}
	span := l.text.append(episode.Policy, g.Tokens, g.LogProbs)
	eos := e.Tokenizer.EOS()
	written := g.Tokens
	for len(written) > 0 && slices.Contains(eos, written[len(written)-1]) {
		written = written[:len(written)-1]
	}
	agent := l.job.Agent
	text := e.Tokenizer.Decode(written)
	action := agent.Protocol.Parse(text)
	turn := episode.Turn{Sequence: l.text.sequence, Span: span, Text: text, Thought: action.Thought, Action: action.Kind}
	turn.ActionSpan = e.actionSpan(span, written, action)
	l.fresh++
	defer func() { l.ep.Turns = append(l.ep.Turns, turn) }()

	switch action.Kind {
	case episode.ActionAnswer:
		turn.Executed, turn.Tool, turn.Arguments = true, action.Tool, action.Arguments
		if !action.Silent {
			l.ep.Answer = &action.Answer
		}
		l.end(episode.StopAnswered)
		return nil, nil
	case episode.ActionCall:
		turn.Tool, turn.Arguments = agent.called(action)
		if fields, ok := agent.Protocol.(*Fields); ok {
			turn.Tool = fields.tool(turn.Tool, agent.Tools)
		}
		return e.allow(l, &turn)
	}
	// Nothing that the protocol understands.
	if g.Length && len(written) == len(g.Tokens) {
		turn.Action = episode.ActionNone
	}
	switch {
	case l.closing:
		l.end(episode.StopBudget)
	case action.Problem != "" && agent.Invalid == nil:
		return nil, e.refuse(l, &turn, action.Problem)
	case action.Ends || agent.Invalid == nil:
		l.end(episode.StopInvalid)
		if turn.Action == episode.ActionNone {
			l.end(episode.StopLength)
		}
	default:
		l.turns++
		turn.Error = action.Problem
		var wrap func([]Piece) []Piece
		if action.Problem != "" {
			wrap = agent.Protocol.Wrap
		}
		if err := e.notice(l, &turn, agent.Invalid, wrap); err != nil {
			return nil, fmt.Errorf("invalid text: %w", err)
		}
		if agent.anew() {
			turn.Error = turn.Observation
		}
		if agent.exhausted(l.turns, 0) {
			l.closing = true
			if agent.OnBudget == OnBudgetStop {
				l.end(episode.StopBudget)
				return nil, nil
			}
			if err := e.announceClosing(l, len(l.ep.Turns)+1, &turn); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// allow applies the budget to a call. The call is returned when it may be carried out.
func (e *Engine) allow(l *live, turn *episode.Turn) (*call, error) {
	agent := l.job.Agent
	if l.closing {
		l.end(episode.StopBudget)
		return nil, nil
	}
	if agent.exhausted(l.turns, searches(l.ep.Turns)) {
		if agent.OnBudget != OnBudgetLimitText {
			l.end(episode.StopBudget)
			return nil, nil
		}
		l.closing = true
		l.turns++
		if err := e.notice(l, turn, agent.Limit, agent.Protocol.Wrap); err != nil {
			return nil, fmt.Errorf("limit text: %w", err)
		}
		return nil, nil
	}
	if err := agent.checkCall(*turn); err != nil {
		return nil, e.refuse(l, turn, err.Error())
	}
	l.turns++
	return &call{live: l, turn: len(l.ep.Turns)}, nil
}

// refuse answers an action that cannot be carried out by what is wrong with it. It uses up a turn.
func (e *Engine) refuse(l *live, turn *episode.Turn, problem string) error {
	turn.Error = problem
	l.turns++
	if err := e.observe(l, len(l.ep.Turns)+1, turn, nil, problem); err != nil {
		return err
	}
	return e.closeAfter(l, len(l.ep.Turns)+1, turn)
}

// notice appends a text of the agent, between the marks of an observation if wrap is given, unless the text holds
// them itself.
func (e *Engine) notice(l *live, turn *episode.Turn, template Template, wrap func([]Piece) []Piece) error {
	mark := ""
	if l.job.Agent.anew() {
		wrap = nil // a part of the next prompt
	}
	if wrap != nil {
		mark = strings.TrimSpace(wrap(nil)[0].Text)
	}
	pieces, err := template.Render(l.vars(len(l.ep.Turns)+1, turn, nil))
	if err != nil {
		return err
	}
	if wrap != nil && !strings.Contains(joined(pieces), mark) {
		pieces = wrap(trimPieces(pieces))
	}
	if l.job.Agent.anew() {
		turn.Observation = e.cutObservation(l.job.Agent, pieces)
		return nil
	}
	tokens := e.Tokenizer.EncodePieces(neutralise(pieces, e.controls(l.job.Agent)))
	turn.ObservationSpan, turn.Observation = e.tell(l, episode.Notice, tokens)
	return nil
}

// tell appends what the policy did not write, as much of it as the policy's context has room for: no sequence gets
// longer than what it can be trained on. A sequence without room left is at its end.
func (e *Engine) tell(l *live, kind episode.SegmentKind, tokens []int32) (episode.Span, string) {
	length := l.text.length()
	tokens = tokens[:min(len(tokens), max(0, e.Sampler.MaxContext()-length))]
	if len(tokens) == 0 {
		return episode.Span{Start: length, End: length}, ""
	}
	return l.text.append(kind, tokens, nil), l.text.last()
}

// observe appends the observation of a call.
func (e *Engine) observe(l *live, number int, turn *episode.Turn, hits []episode.Hit, failure string) error {
	agent := l.job.Agent
	pieces := []Piece{{Text: failure}}
	if failure == "" {
		var err error
		if pieces, err = agent.Observation.Render(l.vars(number, turn, hits)); err != nil {
			return fmt.Errorf("observation text: %w", err)
		}
	}
	if agent.anew() {
		turn.Hits, turn.Observation = hits, e.cutObservation(agent, pieces)
		return nil
	}
	pieces = neutralise(agent.Protocol.Wrap(trimPieces(pieces)), e.controls(agent))
	tokens := e.Tokenizer.EncodePieces(pieces)
	if agent.MaxObservationTokens > 0 && len(tokens) > agent.MaxObservationTokens {
		tokens = tokens[:agent.MaxObservationTokens]
	}
	turn.Hits = hits
	turn.ObservationSpan, turn.Observation = e.tell(l, episode.Observation, tokens)
	if l.text.length() >= e.Sampler.MaxContext() {
		l.end(episode.StopLength)
	}
	return nil
}

// closeAfter leaves only the closing turn when the call of turn, which has been observed, used the budget up.
func (e *Engine) closeAfter(l *live, number int, turn *episode.Turn) error {
	agent := l.job.Agent
	if !agent.exhausted(l.turns, searches(l.ep.Turns)) {
		return nil
	}
	if agent.anew() && agent.OnBudget == OnBudgetStop {
		l.end(episode.StopBudget) // nobody reads what the last call found
	}
	if agent.OnBudget != OnBudgetClose {
		return nil
	}
	l.closing = true
	return e.announceClosing(l, number, turn)
}

// announceClosing says the closing text, if there is one, after what turn came to: it becomes part of what follows
// the turn, so that an episode that is continued there holds it.
func (e *Engine) announceClosing(l *live, number int, turn *episode.Turn) error {
	agent := l.job.Agent
	if agent.Closing == nil || l.done {
		return nil
	}
	pieces, err := agent.Closing.Render(l.vars(number, turn, turn.Hits))
	if err != nil {
		return fmt.Errorf("closing text: %w", err)
	}
	span, text := e.tell(l, episode.Notice, e.Tokenizer.EncodePieces(neutralise(pieces, e.controls(agent))))
	turn.ObservationSpan.End = span.End
	turn.Observation += text
	if l.text.length() >= e.Sampler.MaxContext() {
		l.end(episode.StopLength)
	}
	return nil
}

func (l *live) end(stop episode.Stop) {
	l.done = true
	l.ep.Stop = stop
}

// actionSpan is the token range that covers the action's bytes in the turn's text.
func (e *Engine) actionSpan(span episode.Span, tokens []int32, a Action) episode.Span {
	if a.End <= a.Start {
		return episode.Span{Start: span.Start, End: span.Start}
	}
	decode := e.Tokenizer.Decoder()
	start, end, at := -1, len(tokens), 0
	for i, id := range tokens {
		at += len(decode(id))
		if start < 0 && at > a.Start {
			start = i
		}
		if at >= a.End {
			end = i + 1
			break
		}
	}
	return episode.Span{Start: span.Start + max(start, 0), End: span.Start + end}
}

// call is one tool call of an episode's turn.
type call struct {
	live *live
	turn int // index into the episode's turns
}

// call carries calls out, one batch per tool, and appends the observations.
func (e *Engine) call(ctx context.Context, calls []*call) error {
	byTool := map[string][]*call{}
	var tools []string
	for _, c := range calls {
		tool := c.live.ep.Turns[c.turn].Tool
		if byTool[tool] == nil {
			tools = append(tools, tool)
		}
		byTool[tool] = append(byTool[tool], c)
	}
	for _, tool := range tools {
		if err := e.callTool(ctx, tool, byTool[tool]); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) callTool(ctx context.Context, tool string, calls []*call) error {
	requests := make([]sdk.Call, len(calls))
	for i, c := range calls {
		ep := c.live.ep
		requests[i] = sdk.Call{EpisodeID: ep.ID, Turn: c.turn, Arguments: ep.Turns[c.turn].Arguments, Seen: seen(ep.Turns[:c.turn])}
	}
	began := time.Now()
	results, err := e.Tools.Call(ctx, tool, requests)
	if err != nil {
		return fmt.Errorf("rollout: tool %q: %w", tool, err)
	}
	if len(results) != len(calls) {
		return fmt.Errorf("rollout: tool %q answered %d of %d calls", tool, len(results), len(calls))
	}
	latency := time.Since(began).Seconds()
	for i, c := range calls {
		l := c.live
		turn := &l.ep.Turns[c.turn]
		turn.Executed, turn.Error, turn.LatencySeconds = true, results[i].Error, latency
		if err := e.observe(l, c.turn+1, turn, results[i].Hits, results[i].Error); err != nil {
			return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
		}
		if err := e.closeAfter(l, c.turn+1, turn); err != nil {
			return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
		}
	}
	return nil
}

func seen(turns []episode.Turn) []sdk.Seen {
	var list []sdk.Seen
	for i, t := range turns {
		for _, h := range t.Hits {
			list = append(list, sdk.Seen{Turn: i, Tool: t.Tool, DocumentID: h.DocumentID, ParagraphID: h.ParagraphID, SentenceID: h.SentenceID})
		}
	}
	return list
}
