package sdktest

import (
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Builder makes episodes of one growing dialogue, a token per word.
type Builder struct{ e episode.Episode }

// NewEpisode starts an episode of the question.
func NewEpisode(id string, q episode.Question) *Builder {
	prompt := "Question: " + q.Text
	n := words(prompt)
	return &Builder{e: episode.Episode{
		ID: id, QuestionID: q.ID, Origin: episode.OriginPolicy, Stop: episode.StopBudget,
		Sequences: []episode.Sequence{{Prompt: prompt, PromptLength: n, Length: n}},
	}}
}

func words(text string) int { return max(1, len(strings.Fields(text))) }

// write appends a segment and gives its span.
func (b *Builder) write(kind episode.SegmentKind, text string) episode.Span {
	s := &b.e.Sequences[0]
	span := episode.Span{Start: s.Length, End: s.Length + words(text)}
	s.Segments = append(s.Segments, episode.Segment{Kind: kind, Start: span.Start, End: span.End, Text: text})
	s.Length = span.End
	if kind == episode.Policy {
		b.e.Counters.PolicyTokens += span.Len()
	} else {
		b.e.Counters.ObservationTokens += span.Len()
	}
	return span
}

// Search adds a turn that thinks, searches and reads the hits.
func (b *Builder) Search(thought, query string, hits ...episode.Hit) *Builder {
	action := "<search> " + query + " </search>"
	text := "<think> " + thought + " </think> " + action
	span := b.write(episode.Policy, text)
	var read []string
	for _, h := range hits {
		read = append(read, h.Title+" "+h.Text)
	}
	observation := "<information> " + strings.Join(read, " ") + " </information>"
	b.e.Turns = append(b.e.Turns, episode.Turn{
		Span: span, ActionSpan: episode.Span{Start: span.End - words(action), End: span.End}, ObservationSpan: b.write(episode.Observation, observation),
		Text: text, Thought: thought, Action: episode.ActionCall, Tool: "search", Arguments: map[string]any{"query": query},
		Hits: hits, Observation: observation, Executed: true,
	})
	b.e.Counters.Turns++
	b.e.Counters.Searches++
	b.e.Counters.Valid++
	return b
}

// Invalid adds a turn that no protocol understands.
func (b *Builder) Invalid(text string) *Builder {
	span := b.write(episode.Policy, text)
	b.e.Turns = append(b.e.Turns, episode.Turn{Span: span, Text: text, Action: episode.ActionInvalid})
	b.write(episode.Notice, "That is not a valid action.")
	b.e.Counters.Turns++
	b.e.Counters.Invalid++
	return b
}

// Answer adds the last turn.
func (b *Builder) Answer(answer string) *Builder {
	text := "<answer> " + answer + " </answer>"
	span := b.write(episode.Policy, text)
	b.e.Turns = append(b.e.Turns, episode.Turn{Span: span, ActionSpan: span, Text: text, Action: episode.ActionAnswer})
	b.e.Answer, b.e.Stop = &answer, episode.StopAnswered
	b.e.Counters.Valid++
	return b
}

// Reward sets the total and a leaf of that name.
func (b *Builder) Reward(name string, value float64) *Builder {
	b.e.Rewards.Total = value
	if b.e.Rewards.Leaves == nil {
		b.e.Rewards.Leaves = map[string]episode.Leaf{}
	}
	b.e.Rewards.Leaves[name] = episode.Leaf{Value: value}
	return b
}

// Origin says that the episode is an expert's, for example.
func (b *Builder) Origin(o episode.Origin) *Builder {
	b.e.Origin = o
	return b
}

// Episode gives the episode.
func (b *Builder) Episode() episode.Episode { return b.e }

// Questions gives a few questions with their gold documents, of one to three hops.
func Questions() []episode.Question {
	return []episode.Question{
		{
			ID: "q0", Text: "Who painted the ceiling of the chapel?", Answers: []string{"Ada Brook"}, Hops: 1, Type: "bridge",
			Gold: []episode.Gold{{Title: "Chapel", DocumentID: "d0", ParagraphID: "d0.0"}},
		},
		{
			ID: "q1", Text: "Where was the painter of the chapel born?", Answers: []string{"Lowmere", "the town of Lowmere"}, Hops: 2, Type: "bridge",
			Gold: []episode.Gold{{Title: "Chapel", DocumentID: "d0", ParagraphID: "d0.0"}, {Title: "Ada Brook", DocumentID: "d1", ParagraphID: "d1.0"}},
		},
		{
			ID: "q2", Text: "Which river flows through the town where the chapel's painter was born?", Answers: []string{"Ister"}, Hops: 3, Type: "bridge",
			Gold: []episode.Gold{
				{Title: "Chapel", DocumentID: "d0", ParagraphID: "d0.0"}, {Title: "Ada Brook", DocumentID: "d1", ParagraphID: "d1.0"},
				{Title: "Lowmere", DocumentID: "d2", ParagraphID: "d2.0"},
			},
		},
		{
			ID: "q3", Text: "Is the river Ister longer than the river Pell?", Answers: []string{"yes"}, Hops: 2, Type: "comparison",
			Gold: []episode.Gold{{Title: "Ister", DocumentID: "d3", ParagraphID: "d3.0"}, {Title: "Pell", DocumentID: "d4", ParagraphID: "d4.0"}},
		},
	}
}

// Documents gives the paragraphs that [Questions] rest on, and some that nothing rests on.
func Documents() []episode.Hit {
	return []episode.Hit{
		{DocumentID: "d0", ParagraphID: "d0.0", Title: "Chapel", Text: "The ceiling of the chapel was painted by Ada Brook."},
		{DocumentID: "d1", ParagraphID: "d1.0", Title: "Ada Brook", Text: "Ada Brook was a painter born in Lowmere."},
		{DocumentID: "d2", ParagraphID: "d2.0", Title: "Lowmere", Text: "Lowmere is a town on the river Ister."},
		{DocumentID: "d3", ParagraphID: "d3.0", Title: "Ister", Text: "The Ister is a river of 210 miles."},
		{DocumentID: "d4", ParagraphID: "d4.0", Title: "Pell", Text: "The Pell is a river of 120 miles."},
		{DocumentID: "d5", ParagraphID: "d5.0", Title: "Harrow", Text: "Harrow is a village known for its bridge."},
	}
}
