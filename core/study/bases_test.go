package study

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/evaluation"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/tokenizer"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// wellFormed is a turn whose tags are those of the embedded world's protocol, each where it belongs.
var wellFormed = regexp.MustCompile(`^<think> [^<>]+ </think> (<search> [^<>]+ </search>|<answer> [^<>]+ </answer>( <eos>)?)$`)

// TestBasesAreAccepted samples the embedded base policies on 256 training questions, eight times each. A base is of
// use when it keeps to the protocol and reads what it has retrieved, yet hardly ever finishes a chain by itself.
func TestBasesAreAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("samples 4,096 episodes")
	}
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/bases", "bases", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := record.Study{Dir: t.TempDir()}
	if summary, err := Execute(t.Context(), e.options(p, dir.Dir)); err != nil || summary.Failed > 0 {
		t.Fatalf("%v, %+v", err, summary)
	}
	world, err := dataset.Open(t.Context(), dataset.Spec{Builtin: "minihop", MiniHop: dataset.MiniHop{Split: "train", World: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Runs {
		base := r.Cell.Arm
		episodes, err := run.ReadEvaluationEpisodes(dir.Run(r.ID), "samples")
		if err != nil {
			t.Fatal(err)
		}
		if len(episodes) != 8*minihop.TrainQuestions {
			t.Fatalf("%s: %d episodes", base, len(episodes))
		}
		formatted, unsearched := 0, 0
		asked, finished := map[int]int{}, map[int]int{} // by hops
		for _, ep := range episodes {
			i, ok := world.Find(ep.QuestionID)
			if !ok {
				t.Fatalf("%s: episode of question %s, which the world does not ask", base, ep.QuestionID)
			}
			q, err := world.At(i)
			if err != nil {
				t.Fatal(err)
			}
			asked[q.Hops]++
			if ep.Stop == episode.StopAnswered && !slices.ContainsFunc(ep.Turns, func(t episode.Turn) bool { return !wellFormed.MatchString(t.Text) }) {
				formatted++
			}
			if ep.Counters.Searches == 0 {
				unsearched++
			}
			scored, err := evaluation.Score(q, ep.Episode, evaluation.RuleHotpot)
			if err != nil {
				t.Fatal(err)
			}
			if scored.Values["em"] == 1 && scored.Values["evidence_all"] == 1 {
				finished[q.Hops]++
			}
		}
		n := float64(len(episodes))
		format, never := float64(formatted)/n, float64(unsearched)/n
		two, three := float64(finished[2])/float64(asked[2]), float64(finished[3])/float64(asked[3])
		t.Logf("%s: format %.4f, without a search %.4f, full chain and right: 2 hops %.4f (%d of %d), 3 hops %.4f (%d of %d)",
			base, format, never, two, finished[2], asked[2], three, finished[3], asked[3])
		if format < .98 {
			t.Errorf("%s: only %.3f of the episodes keep to the format", base, format)
		}
		if base == "never" && never < .99 {
			t.Errorf("never: only %.3f of the episodes do without a search", never)
		}
		if two > .013 || three > .002 {
			t.Errorf("%s: finishes %.4f of the 2-hop and %.4f of the 3-hop chains by itself: plain GRPO could escape the collapse", base, two, three)
		}
	}
}

// TestBasesRead: the embedded base policies continue gold chains in worlds they have never seen. At each place where
// the next entity has to be copied from the document just read, the most likely token is the right one as a rule.
func TestBasesRead(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 900 chains with each base")
	}
	backend, err := policy.OpenBackend("")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	for _, base := range minihop.Policies() {
		protocol := minihop.ProtocolOf(base)
		if asks[protocol] == nil {
			t.Logf("%s: the protocol %q has tests of its own", base, protocol)
			continue
		}
		wrong := 0.
		chains, err := dataset.Open(t.Context(), dataset.Spec{Builtin: "minihop", Limit: 900, MiniHop: dataset.MiniHop{
			Split: "stream", World: 77, Phase: string(minihop.PhaseSkill), WrongQuery: &wrong, Protocol: protocol,
		}})
		if err != nil {
			t.Fatal(err)
		}
		right, total, err := copies(t.Context(), base, t.TempDir(), chains, backend)
		if err != nil {
			t.Fatal(err)
		}
		least, sum := 1., 0.
		for _, at := range slices.SortedFunc(maps.Keys(total), func(a, b place) int {
			return cmp.Or(cmp.Compare(a.hops, b.hops), cmp.Compare(a.hop, b.hop))
		}) {
			share := float64(right[at]) / float64(total[at])
			t.Logf("%s: chain of %d, after document %d: %.3f of %d copied", base, at.hops, at.hop, share, total[at])
			least, sum = min(least, share), sum+share
		}
		mean := sum / float64(len(total))
		t.Logf("%s: mean %.3f, least %.3f", base, mean, least)
		if len(total) != 6 {
			t.Errorf("%s: %d places to copy at, want those of chains of 1, 2 and 3 documents", base, len(total))
		}
		if mean < .75 || least < .6 {
			t.Errorf("%s reads too badly to learn from: mean %.3f, least %.3f", base, mean, least)
		}
	}
}

// asks are the tokens that a query follows in a protocol, most of all the entity that it begins with.
var asks = map[minihop.Protocol][]string{
	minihop.ProtocolTags: {minihop.TagSearch}, minihop.ProtocolJSON: {minihop.FrameSemantic, minihop.FrameKeyword},
}

// place is where an entity is copied: after document hop of a chain of hops.
type place struct{ hops, hop int }

// copies counts, over gold chains, how often the greedy next token of a base policy is the entity to be copied.
func copies(ctx context.Context, base, dir string, chains *dataset.Dataset, backend *policy.Backend) (right, total map[place]int, err error) {
	files, err := minihop.Policy(base)
	if err != nil {
		return nil, nil, err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return nil, nil, err
		}
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, nil, err
	}
	p, err := policy.Load(ctx, dir, policy.Options{Backend: backend})
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	const rows = 100
	session, err := p.NewSession(rows, p.Config().MaxPositions)
	if err != nil {
		return nil, nil, err
	}
	defer session.Close()
	var before []int32 // what an entity follows
	for _, word := range append(asks[minihop.ProtocolOf(base)], minihop.TagAnswer) {
		id, ok := tok.TokenID(word)
		if !ok {
			return nil, nil, fmt.Errorf("%s has no token %q", base, word)
		}
		before = append(before, id)
	}

	right, total = map[place]int{}, map[place]int{}
	for first := 0; first < chains.Len(); first += rows {
		type point struct {
			at     place
			prefix []int32
			next   int32
		}
		var points [4][]point // by hop
		for i := first; i < min(first+rows, chains.Len()); i++ {
			q, err := chains.At(i)
			if err != nil {
				return nil, nil, err
			}
			expert, _, err := chains.Expert(i)
			if err != nil {
				return nil, nil, err
			}
			tokens, err := tok.EncodeStrict("<q> "+q.Text+" </q> "+expert.Text, true)
			if err != nil {
				return nil, nil, err
			}
			hop, last := 0, int32(-1)
			for j, id := range tokens {
				// A second search for the same entity is not another hop.
				if slices.Contains(before, id) && tokens[j+1] != last {
					last = tokens[j+1]
					if hop > 0 { // the first search names the entity of the question
						points[hop] = append(points[hop], point{place{q.Hops, hop}, tokens[:j+1], tokens[j+1]})
					}
					hop++
				}
			}
			if hop != q.Hops+1 {
				return nil, nil, fmt.Errorf("chain %d of %d hops has %d places", i, q.Hops, hop)
			}
		}
		for _, list := range points[1:] {
			ask := make([]policy.Row, len(list))
			for i, pt := range list {
				ask[i] = policy.Row{ID: int64(i), Tokens: pt.prefix, MaxNew: 1, Key: rng.New(0)}
			}
			out, err := session.Generate(ctx, ask, policy.SampleParams{Greedy: true})
			if err != nil {
				return nil, nil, err
			}
			for i, pt := range list {
				total[pt.at]++
				if out[i].Tokens[0] == pt.next {
					right[pt.at]++
				}
				session.Release(int64(i))
			}
		}
	}
	return right, total, nil
}
