package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// segmenter appends segments to an episode's one growing sequence and gives each the text that its tokens complete,
// so that the texts joined are the decoded sequence.
type segmenter struct {
	ep     *Episode
	decode func(int32) string
}

func newSegmenter(tok Tokenizer, ep *Episode) *segmenter {
	s := &segmenter{ep: ep, decode: tok.Decoder()}
	seq := &ep.Sequences[0]
	seq.Prompt = ""
	for _, id := range ep.Tokens[0][:seq.PromptLength] {
		seq.Prompt += s.decode(id)
	}
	for i := range seq.Segments {
		seg := &seq.Segments[i]
		seg.Text = ""
		for _, id := range ep.Tokens[0][seg.Start:seg.End] {
			seg.Text += s.decode(id)
		}
	}
	return s
}

// append adds tokens of one kind; logProbs is nil for tokens that no policy wrote.
func (s *segmenter) append(kind episode.SegmentKind, tokens []int32, logProbs []float32) episode.Span {
	seq := &s.ep.Sequences[0]
	span := episode.Span{Start: seq.Length, End: seq.Length + len(tokens)}
	if logProbs == nil {
		logProbs = make([]float32, len(tokens))
	}
	s.ep.Tokens[0] = append(s.ep.Tokens[0], tokens...)
	s.ep.LogProbs[0] = append(s.ep.LogProbs[0], logProbs...)
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
	segments := s.ep.Sequences[0].Segments
	return segments[len(segments)-1].Text
}

// branch copies an episode up to and including turn afterTurn with its observation.
func branch(from *Episode, afterTurn int) (*Episode, error) {
	if len(from.Sequences) != 1 {
		return nil, fmt.Errorf("episode %s has %d sequences; only an episode of one growing dialogue can be continued", from.ID, len(from.Sequences))
	}
	if afterTurn < -1 || afterTurn >= len(from.Turns) {
		return nil, fmt.Errorf("episode %s has turns 0 to %d, cannot continue after turn %d", from.ID, len(from.Turns)-1, afterTurn)
	}
	seq := from.Sequences[0]
	length := seq.PromptLength
	for _, t := range from.Turns[:afterTurn+1] {
		length = max(length, t.Span.End, t.ObservationSpan.End)
		if t.Action == episode.ActionAnswer {
			return nil, fmt.Errorf("episode %s has answered by turn %d, there is nothing to continue", from.ID, afterTurn)
		}
	}
	ep := &Episode{
		Tokens:   [][]int32{slices.Clone(from.Tokens[0][:length])},
		LogProbs: [][]float32{slices.Clone(from.LogProbs[0][:length])},
	}
	ep.Parent = &episode.Branch{EpisodeID: from.ID, AfterTurn: afterTurn}
	ep.Turns = slices.Clone(from.Turns[:afterTurn+1])
	kept := seq
	kept.Length = length
	kept.Segments = nil
	for _, seg := range seq.Segments {
		if seg.Start < length {
			seg.End = min(seg.End, length)
			kept.Segments = append(kept.Segments, seg)
		}
	}
	ep.Sequences = []episode.Sequence{kept}
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
		if t.Sequence < 0 || t.Sequence >= len(ep.Sequences) || t.Span.End > ep.Sequences[t.Sequence].Length {
			return fail("turn %d lies outside its sequence", i)
		}
	}
	return nil
}
