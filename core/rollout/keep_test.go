package rollout

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// ledger notes what the sampler is told about its rows.
type ledger struct {
	*script
	notes []string
	live  []int // rows asked for in each call
}

func (l *ledger) Generate(ctx context.Context, rows []Row, p sdk.Sampling) ([]Generated, error) {
	l.live = append(l.live, len(rows))
	for _, r := range rows {
		l.notes = append(l.notes, fmt.Sprintf("generate %d", r.ID))
	}
	return l.script.Generate(ctx, rows, p)
}
func (l *ledger) Release(ids ...int64) { l.notes = append(l.notes, fmt.Sprintf("release %d", ids[0])) }
func (l *ledger) Park(id int64, length int) error {
	l.notes = append(l.notes, fmt.Sprintf("park %d %d", id, length))
	return nil
}
func (l *ledger) Fork(from, to int64, length int) {
	l.notes = append(l.notes, fmt.Sprintf("fork %d %d %d", from, to, length))
}
func (l *ledger) Forget() error { l.notes = append(l.notes, "forget"); return nil }

// Kept episodes are parked up to what can be continued as soon as they end; branches of them are forks.
func TestKeptEpisodes(t *testing.T) {
	sampler := &ledger{script: &script{turns: [][]string{
		{"<search>a</search>", "<answer>x</answer>"}, {"<answer>y</answer>"}, {"<answer>z</answer>"}, {"<answer>v</answer>"},
	}}}
	e := &Engine{Sampler: sampler, Tokenizer: runes{}, Tools: reply(echo)}
	agent, q := searchR1Agent(3), episode.Question{ID: "q", Text: "Q"}
	first, err := e.Run(t.Context(), []Job{{ID: "a", Question: q, Agent: agent, Keep: true}, {ID: "b", Question: q, Agent: agent}})
	if err != nil {
		t.Fatal(err)
	}
	answer := first[0].Turns[1].Span.Start
	want := []string{"generate 1", "generate 2", "release 2", "generate 1", fmt.Sprintf("park 1 %d", answer), "release 1", "release 2"}
	if !slices.Equal(sampler.notes, want) {
		t.Errorf("the sampler was told %q, want %q", sampler.notes, want)
	}
	sampler.notes = nil
	second, err := e.Run(t.Context(), []Job{
		{ID: "c", Question: q, Agent: agent, From: first[0], AfterTurn: 0}, {ID: "d", Question: q, Agent: agent, From: first[1], AfterTurn: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if shared := second[0].Turns[1].Span.Start; shared != answer || !slices.Equal(second[0].Tokens[0][:shared], first[0].Tokens[0][:shared]) {
		t.Errorf("the branch shares %d tokens, want %d", shared, answer)
	}
	// The episode that was not kept is continued as well, without a fork.
	want = []string{fmt.Sprintf("fork 1 3 %d", answer), "generate 3", "generate 4", "release 3", "release 4", "release 3", "release 4"}
	if !slices.Equal(sampler.notes, want) {
		t.Errorf("the sampler was told %q, want %q", sampler.notes, want)
	}
	sampler.notes, sampler.turns = nil, append(sampler.turns, []string{"<answer>w</answer>"})
	sampler.at = append(sampler.at, 0)
	if err := e.Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(t.Context(), []Job{{ID: "e", Question: q, Agent: agent, From: first[0], AfterTurn: 0}}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"forget", "generate 5", "release 5", "release 5"}; !slices.Equal(sampler.notes, want) {
		t.Errorf("the sampler was told %q, want %q", sampler.notes, want)
	}
}
