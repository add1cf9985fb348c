package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// observationField is the section of a transcript that holds what a turn came to.
const observationField = "observation"

// expertFields parses a transcript of the protocol fields: see [Engine.Expert].
func (e *Engine) expertFields(id string, q episode.Question, agent *Agent, fields *Fields, transcript string) (*Episode, error) {
	ep := &Episode{}
	ep.ID, ep.QuestionID, ep.Origin, ep.Stop = id, q.ID, episode.OriginExpert, episode.StopBudget
	sections := fields.sections(transcript)
	if len(sections) == 0 {
		return nil, fmt.Errorf("the transcript has no section: it must hold lines such as %s", fields.Line(fields.Thought))
	}
	if before := transcript[:sections[0].start]; strings.TrimSpace(before) != "" {
		return nil, fmt.Errorf("text before the first section: %q", clip(before))
	}
	take := func(name string) (section, bool) {
		if len(sections) == 0 || sections[0].name != name {
			return section{}, false
		}
		s := sections[0]
		sections = sections[1:]
		return s, true
	}
	if agent.FirstSearch {
		found, ok := take(observationField)
		if !ok {
			return nil, fmt.Errorf("the agent searches first: the transcript must begin with %s and what that search found", fields.Line(observationField))
		}
		ep.Turns = append(ep.Turns, firstTurn(q, agent, episode.Span{}))
		ep.Turns[0].Executed, ep.Turns[0].Observation = true, found.content
	}
	for len(sections) > 0 {
		number := len(ep.Turns) + 1
		if ep.Stop == episode.StopAnswered {
			return nil, fmt.Errorf("turn %d: the turn before it ended the episode", number)
		}
		thought, ok := take(fields.Thought)
		for _, name := range []string{fields.Tool, fields.Arguments} {
			if ok {
				_, ok = take(name)
			}
		}
		completed, closed := take(fields.Completed)
		if !ok || !closed || completed.content != "" {
			return nil, fmt.Errorf("turn %d: must be the sections %s, %s, %s and %s, the last one empty", number, fields.Thought, fields.Tool, fields.Arguments, fields.Completed)
		}
		written := strings.TrimRightFunc(transcript[thought.start:completed.end], isSpace)
		turn, err := e.expertTurn(ep, q, agent, fields, written)
		if err != nil {
			return nil, fmt.Errorf("turn %d: %w", number, err)
		}
		if found, ok := take(observationField); ok {
			turn.Observation = found.content
		} else if turn.Action == episode.ActionCall && len(sections) > 0 {
			return nil, fmt.Errorf("turn %d: the call must be followed by %s", number, fields.Line(observationField))
		}
		if turn.Action == episode.ActionAnswer {
			ep.Stop = episode.StopAnswered
		}
		ep.Turns = append(ep.Turns, turn)
	}
	if len(ep.Sequences) == 0 {
		return nil, fmt.Errorf("the transcript has no turn")
	}
	ep.Counters = count(ep.Episode)
	return ep, nil
}

// expertTurn lays one turn out under the prompt of its history.
func (e *Engine) expertTurn(ep *Episode, q episode.Question, agent *Agent, fields *Fields, written string) (episode.Turn, error) {
	action := fields.Parse(written)
	turn := episode.Turn{
		Sequence: len(ep.Sequences), Text: written, Thought: action.Thought, Action: action.Kind,
		Tool: action.Tool, Arguments: action.Arguments, Executed: true,
	}
	switch action.Kind {
	case episode.ActionAnswer:
		if !action.Silent {
			ep.Answer = &action.Answer
		}
	case episode.ActionCall:
		turn.Tool = fields.tool(turn.Tool, agent.Tools)
		if !slices.Contains(agent.Tools, turn.Tool) {
			return turn, fmt.Errorf("there is no tool %q; the tools are: %s", turn.Tool, strings.Join(agent.Tools, ", "))
		}
	default:
		return turn, fmt.Errorf("no tool and arguments in %q", clip(written))
	}
	prompt, ok, err := e.historyPrompt(q, agent, ep.Turns, false, agent.MaxPromptTokens)
	if err != nil {
		return turn, err
	}
	if !ok {
		return turn, tooLong(len(prompt), agent)
	}
	text := newSequence(e.Tokenizer, ep, prompt)
	tokens := e.Tokenizer.EncodePieces(fields.trust(written))
	turn.Span = text.append(episode.Policy, tokens, nil)
	turn.Text = text.last()
	turn.ActionSpan = e.actionSpan(turn.Span, tokens, action)
	return turn, nil
}
