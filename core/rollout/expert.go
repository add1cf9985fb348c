package rollout

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// transcriber is a protocol that reads whole transcripts.
type transcriber interface {
	Protocol
	// splitTurn cuts the first turn off a transcript: what the policy wrote, and the observation with its tags and the
	// white space around it, which is empty for the last turn.
	splitTurn(text string) (written, observation, rest string, err error)
	// stopsAtAnswer says whether sampling ends with an answer's closing tag.
	stopsAtAnswer() bool
}

// Expert parses a transcript by the agent's protocol into an episode: the policy's text is trained, the observations
// in it are not. Under protocol tags it must end in an answer; for protocol fields see [Fields]: a transcript there is
// the turns one after the other, each followed by the section "observation" with what it came to, and it begins with
// that of the first search where the agent makes one. The end-of-sequence token is added where the transcript has it, and where
// sampling would go on to it.
func (e *Engine) Expert(id string, q episode.Question, agent *Agent, transcript string) (*Episode, error) {
	if fields, ok := agent.Protocol.(*Fields); ok {
		ep, err := e.expertFields(id, q, agent, fields, transcript)
		if err != nil {
			return nil, fmt.Errorf("expert of question %s: %w", q.ID, err)
		}
		return ep, nil
	}
	protocol, ok := agent.Protocol.(transcriber)
	if !ok {
		return nil, fmt.Errorf("expert of question %s: the protocol %T reads no transcripts", q.ID, agent.Protocol)
	}
	controls := protocol.Controls()
	ep, err := e.Prompt(q, agent, nil)
	if err != nil {
		return nil, fmt.Errorf("expert of question %s: %w", q.ID, err)
	}
	ep.ID, ep.QuestionID, ep.Origin = id, q.ID, episode.OriginExpert
	text := newSegmenter(e.Tokenizer, ep)
	rest, ended := e.trimEnd(strings.TrimSpace(transcript))
	for ep.Answer == nil {
		written, observation, after, err := protocol.splitTurn(rest)
		if err != nil {
			return nil, fmt.Errorf("expert of question %s, turn %d: %w", q.ID, len(ep.Turns)+1, err)
		}
		tokens := e.Tokenizer.EncodePieces(trustTags(written, controls))
		if eos := e.Tokenizer.EOS(); observation == "" && (ended || !protocol.stopsAtAnswer()) && len(eos) > 0 {
			tokens = append(tokens, eos[0])
		}
		span := text.append(episode.Policy, tokens, nil)
		action := protocol.Parse(written)
		turn := episode.Turn{
			Span: span, Text: written, Thought: action.Thought, Action: action.Kind, Arguments: action.Arguments,
			ActionSpan: e.actionSpan(span, tokens, action), Executed: true,
		}
		if observation == "" {
			if action.Kind != episode.ActionAnswer {
				return nil, fmt.Errorf("expert of question %s: the last turn must give an answer, got %q", q.ID, clip(written))
			}
			if strings.TrimSpace(after) != "" {
				return nil, fmt.Errorf("expert of question %s: text after the answer: %q", q.ID, clip(after))
			}
			ep.Answer, ep.Stop = &action.Answer, episode.StopAnswered
			ep.Turns = append(ep.Turns, turn)
			break
		}
		turn.Tool, turn.Arguments = agent.called(action)
		if err := agent.checkCall(turn); err != nil {
			return nil, fmt.Errorf("expert of question %s, turn %d: %w", q.ID, len(ep.Turns)+1, err)
		}
		turn.ObservationSpan = text.append(episode.Observation, e.Tokenizer.EncodePieces(trustTags(observation, controls)), nil)
		turn.Observation = text.last()
		ep.Turns = append(ep.Turns, turn)
		rest = after
	}
	ep.Counters = count(ep.Episode)
	return ep, nil
}

// trimEnd takes the text of an end-of-sequence token off the end of a transcript.
func (e *Engine) trimEnd(transcript string) (string, bool) {
	for _, id := range e.Tokenizer.EOS() {
		if rest, ok := strings.CutSuffix(transcript, strings.TrimSpace(e.Tokenizer.Decode([]int32{id}))); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return transcript, false
}

// splitTurn implements transcriber.
func (t *Tags) splitTurn(text string) (written, observation, rest string, err error) {
	if strings.TrimSpace(text) == "" {
		return "", "", "", fmt.Errorf("the transcript ends without an answer")
	}
	call, _, called := t.firstCall(text)
	if t.StopAtAnswer {
		if answer, answered := firstPair(text, t.Answer); answered && (!called || answer.start < call.start) {
			return text[:answer.end], "", text[answer.end:], nil
		}
	}
	if !called {
		return strings.TrimRightFunc(text, unicode.IsSpace), "", "", nil
	}
	observation, rest, err = cutObservation(text[call.end:], t.Observation, text[call.start:call.end])
	return text[:call.end], observation, rest, err
}

// stopsAtAnswer implements transcriber.
func (t *Tags) stopsAtAnswer() bool { return t.StopAtAnswer }

// cutObservation cuts the observation that follows a call off a text, with its tags and the white space around it.
func cutObservation(text string, marks TagPair, call string) (observation, rest string, err error) {
	block, ok := firstPair(text, marks)
	if !ok || strings.TrimSpace(text[:block.start]) != "" {
		return "", "", fmt.Errorf("the call %q is not followed by a closed observation %q … %q", clip(call), marks.open(), marks.close())
	}
	end := block.end
	end += len(text[end:]) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
	return text[:end], text[end:], nil
}

// trustTags splits text so that only the protocol's own tags are trusted.
func trustTags(text string, tags []string) []Piece {
	var pieces []Piece
	for text != "" {
		at, tag := len(text), ""
		for _, candidate := range tags {
			if i := strings.Index(text, candidate); i >= 0 && (i < at || i == at && len(candidate) > len(tag)) {
				at, tag = i, candidate
			}
		}
		if at > 0 {
			pieces = append(pieces, Piece{Text: text[:at]})
		}
		if tag != "" {
			pieces = append(pieces, Piece{Text: tag, Trusted: true})
		}
		text = text[at+len(tag):]
	}
	return pieces
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
