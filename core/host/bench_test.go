package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// searchEpisode has three searches with three hits of 400 characters each, all texts included as a real one.
func searchEpisode(id string) episode.Episode {
	text := strings.Repeat("lorem ipsum ", 33)
	hits := []episode.Hit{{DocumentID: "d1", Title: "One", Text: text}, {DocumentID: "d2", Title: "Two", Text: text}, {DocumentID: "d3", Title: "Three", Text: text}}
	e := episode.Episode{ID: id, QuestionID: "q", Origin: episode.OriginPolicy, Stop: episode.StopAnswered}
	s := episode.Sequence{Prompt: "Answer the question.", PromptLength: 20, Length: 20}
	add := func(kind episode.SegmentKind, tokens int, text string) {
		s.Segments = append(s.Segments, episode.Segment{Kind: kind, Start: s.Length, End: s.Length + tokens, Text: text})
		s.Length += tokens
	}
	for range 3 {
		add(episode.Policy, 15, "I search for it")
		add(episode.Observation, 30, strings.Repeat(text, 3))
		e.Turns = append(e.Turns, episode.Turn{
			Text: "I search for it", Action: episode.ActionCall, Tool: "search", Arguments: map[string]any{"query": "it"}, Hits: hits, Observation: strings.Repeat(text, 3),
		})
	}
	add(episode.Policy, 15, "The answer is this")
	e.Sequences = []episode.Sequence{s}
	return e
}

// BenchmarkStepTransport measures what a step of 80 episodes of 150 tokens costs beyond host and plugin.
func BenchmarkStepTransport(b *testing.B) {
	dir := b.TempDir()
	o := testOptions(dir)
	install(b, o.BundleDir, "forage-good")
	if err := WriteBundle(o.BundleDir); err != nil {
		b.Fatal(err)
	}
	c, err := Discover(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s, err := NewSupervisor(c, RunOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	host := &scripted{rollout: func(_ context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
		var out []sdk.RolloutResponse
		for _, r := range requests {
			response := sdk.RolloutResponse{RequestID: r.RequestID}
			for n := range r.N {
				response.Episodes = append(response.Episodes, searchEpisode(fmt.Sprintf("%s-%d", r.RequestID, n)))
			}
			out = append(out, response)
		}
		return out, nil
	}}
	a, err := s.Algorithm(b.Context(), InstanceSpec{Name: "a", Label: "testing"}, host)
	if err != nil {
		b.Fatal(err)
	}
	var questions []episode.Question
	for i := range 16 {
		questions = append(questions, episode.Question{ID: fmt.Sprint("q", i), Text: "Which?"})
	}
	before := s.Stats()[0]
	for b.Loop() {
		if _, err := a.Step(b.Context(), sdk.StepRequest{Questions: questions}); err != nil {
			b.Fatal(err)
		}
	}
	after := s.Stats()[0]
	n := float64(after.Calls - before.Calls)
	b.ReportMetric(float64(after.Transport-before.Transport)/1e6/n, "transport-ms/op")
	b.ReportMetric(float64(after.BytesSent-before.BytesSent)/1e6/n, "MB-sent/op")
	b.ReportMetric(float64(after.BytesReceived-before.BytesReceived)/1e6/n, "MB-received/op")
}
