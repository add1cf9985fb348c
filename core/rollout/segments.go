package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// segmenter appends segments to an episode's last sequence and gives each the text that its tokens complete, so that
// the texts joined are the decoded sequence.
type segmenter struct {
	ep       *Episode
	sequence int
	decode   func(int32) string
}

// newSegmenter goes on with the last sequence of an episode, whose texts it makes again.
func newSegmenter(tok Tokenizer, ep *Episode) *segmenter {
	s := &segmenter{ep: ep, sequence: len(ep.Sequences) - 1, decode: tok.Decoder()}
	seq, tokens := &ep.Sequences[s.sequence], ep.Tokens[s.sequence]
	seq.Prompt = ""
	for _, id := range tokens[:seq.PromptLength] {
		seq.Prompt += s.decode(id)
	}
	for i := range seq.Segments {
		seg := &seq.Segments[i]
		seg.Text = ""
		for _, id := range tokens[seg.Start:seg.End] {
			seg.Text += s.decode(id)
		}
	}
	return s
}

// newSequence adds a sequence to an episode that holds only its prompt.
func newSequence(tok Tokenizer, ep *Episode, prompt []int32) *segmenter {
	ep.Tokens = append(ep.Tokens, prompt)
	ep.LogProbs = append(ep.LogProbs, make([]float32, len(prompt)))
	ep.Sequences = append(ep.Sequences, episode.Sequence{PromptLength: len(prompt), Length: len(prompt)})
	return newSegmenter(tok, ep)
}

// append adds tokens of one kind; logProbs is nil for tokens that no policy wrote.
func (s *segmenter) append(kind episode.SegmentKind, tokens []int32, logProbs []float32) episode.Span {
	seq := &s.ep.Sequences[s.sequence]
	span := episode.Span{Start: seq.Length, End: seq.Length + len(tokens)}
	if logProbs == nil {
		logProbs = make([]float32, len(tokens))
	}
	s.ep.Tokens[s.sequence] = append(s.ep.Tokens[s.sequence], tokens...)
	s.ep.LogProbs[s.sequence] = append(s.ep.LogProbs[s.sequence], logProbs...)
	var text strings.Builder
	for _, id := range tokens {
		text.WriteString(s.decode(id))
	}
	seq.Segments = append(seq.Segments, episode.Segment{Kind: kind, Start: span.Start, End: span.End, Text: text.String()})
	seq.Length = span.End
	return span
}

// last is the text of the last segment.
func (s *segmenter) last() string {
	segments := s.ep.Sequences[s.sequence].Segments
	return segments[len(segments)-1].Text
}

// length is the number of tokens of the sequence.
func (s *segmenter) length() int { return len(s.ep.Tokens[s.sequence]) }

// branch copies an episode up to and including turn afterTurn with its observation. An agent that renders its prompt
// anew goes on from the turns of any episode, and takes over the sequences that they stand in; other agents need one
// growing dialogue.
func branch(from *Episode, afterTurn int, anew bool) (*Episode, error) {
	if afterTurn < -1 || afterTurn >= len(from.Turns) {
		return nil, fmt.Errorf("episode %s has turns 0 to %d, cannot continue after turn %d", from.ID, len(from.Turns)-1, afterTurn)
	}
	kept := from.Turns[:afterTurn+1]
	for _, t := range kept {
		if t.Action == episode.ActionAnswer {
			return nil, fmt.Errorf("episode %s has answered by turn %d, there is nothing to continue", from.ID, afterTurn)
		}
		if !anew && t.Observation != "" && t.ObservationSpan.Len() == 0 {
			return nil, fmt.Errorf("episode %s renders its prompt anew each turn; only an agent with protocol fields can continue it", from.ID)
		}
	}
	if !anew && len(from.Sequences) != 1 {
		return nil, fmt.Errorf("episode %s has %d sequences; only an agent with protocol fields can continue it", from.ID, len(from.Sequences))
	}
	ep := &Episode{}
	ep.Parent = &episode.Branch{EpisodeID: from.ID, AfterTurn: afterTurn}
	ep.Turns = slices.Clone(kept)
	for i, seq := range from.Sequences {
		length, used := seq.PromptLength, !anew
		for _, t := range kept {
			if t.Sequence == i && t.Span.Len() > 0 {
				length, used = max(length, t.Span.End), true
			}
			if t.Sequence == i {
				length = max(length, t.ObservationSpan.End)
			}
		}
		if !used {
			break // it belongs to turns that are left out
		}
		ep.Tokens = append(ep.Tokens, slices.Clone(from.Tokens[i][:length]))
		ep.LogProbs = append(ep.LogProbs, slices.Clone(from.LogProbs[i][:length]))
		cut := seq
		cut.Length = length
		cut.Segments = nil
		for _, seg := range seq.Segments {
			if seg.Start < length {
				seg.End = min(seg.End, length)
				cut.Segments = append(cut.Segments, seg)
			}
		}
		ep.Sequences = append(ep.Sequences, cut)
	}
	return ep, nil
}

// count derives the counters from segments and turns.
func count(ep episode.Episode) episode.Counters {
	var c episode.Counters
	for _, t := range ep.Turns {
		c.Turns++
		switch t.Action {
		case episode.ActionCall:
			c.Valid++
			if t.Executed {
				c.Searches++
			}
		case episode.ActionAnswer:
			c.Valid++
		default:
			c.Invalid++
		}
	}
	for _, seq := range ep.Sequences {
		for _, seg := range seq.Segments {
			switch seg.Kind {
			case episode.Policy:
				c.PolicyTokens += seg.End - seg.Start
			case episode.Observation:
				c.ObservationTokens += seg.End - seg.Start
			}
		}
	}
	return c
}

// Check refuses an episode whose parts contradict each other: segments that do not tile the response, arrays of the
// wrong length, text that its tokens do not decode to, a log-probability on a token that the policy did not write.
func Check(ep *Episode, tok Tokenizer) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("episode %s: %s", ep.ID, fmt.Sprintf(format, args...))
	}
	if len(ep.Tokens) != len(ep.Sequences) || len(ep.LogProbs) != len(ep.Sequences) {
		return fail("%d sequences, %d token buffers, %d log-probability buffers", len(ep.Sequences), len(ep.Tokens), len(ep.LogProbs))
	}
	for i, seq := range ep.Sequences {
		if len(ep.Tokens[i]) != seq.Length || len(ep.LogProbs[i]) != seq.Length {
			return fail("sequence %d has length %d, %d tokens, %d log-probabilities", i, seq.Length, len(ep.Tokens[i]), len(ep.LogProbs[i]))
		}
		at := seq.PromptLength
		var text strings.Builder
		text.WriteString(seq.Prompt)
		for j, seg := range seq.Segments {
			if seg.Start != at || seg.End < seg.Start {
				return fail("sequence %d, segment %d covers [%d, %d), expected a start at %d", i, j, seg.Start, seg.End, at)
			}
			for k := seg.Start; k < seg.End; k++ {
				if p := ep.LogProbs[i][k]; p > 0 || p != p {
					return fail("sequence %d, token %d has log-probability %v", i, k, p)
				} else if p != 0 && seg.Kind != episode.Policy {
					return fail("sequence %d, token %d of kind %s has a log-probability", i, k, seg.Kind)
				}
			}
			at = seg.End
			text.WriteString(seg.Text)
		}
		if at != seq.Length {
			return fail("sequence %d: segments end at %d, the sequence at %d", i, at, seq.Length)
		}
		decode, decoded := tok.Decoder(), ""
		for _, id := range ep.Tokens[i] {
			decoded += decode(id)
		}
		if decoded != text.String() {
			return fail("sequence %d decodes to another text than it records", i)
		}
	}
	for i, t := range ep.Turns {
		if len(ep.Sequences) == 0 && t.Text == "" {
			continue // a first search used the budget up before any prompt was made
		}
		if t.Sequence < 0 || t.Sequence >= len(ep.Sequences) || t.Span.End > ep.Sequences[t.Sequence].Length {
			return fail("turn %d lies outside its sequence", i)
		}
	}
	return nil
}
