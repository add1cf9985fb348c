package run

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// catalogueOf builds the plugin packs that a test needs and finds them.
func catalogueOf(t *testing.T, packs ...string) *host.Catalogue {
	t.Helper()
	dir := t.TempDir()
	bundle := filepath.Join(dir, "plugins")
	for _, pack := range packs {
		build := exec.Command("go", "build", "-o", filepath.Join(bundle, "forage-"+pack), "github.com/forage-rl/forage/plugins/"+pack)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build pack %s: %v\n%s", pack, err, out)
		}
	}
	if err := host.WriteBundle(bundle); err != nil {
		t.Fatal(err)
	}
	catalogue, err := host.Discover(t.Context(), host.Options{
		BundleDir: bundle, PluginDir: filepath.Join(dir, "third"), WorkDir: dir, CacheDir: filepath.Join(dir, "schemas"),
		TrustFile: filepath.Join(dir, "trusted"), Env: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := catalogue.Close(); err != nil {
			t.Error(err)
		}
	})
	return catalogue
}

// schemaSource lets the language ask a catalogue.
type schemaSource struct {
	t *testing.T
	*host.Catalogue
}

func (s schemaSource) Schema(kind sdk.Kind, label string) (experiment.PluginInfo, error) {
	info, err := s.Catalogue.Schema(s.t.Context(), kind, label)
	return experiment.PluginInfo{Name: info.Name, Schema: info.Schema, Pack: info.Pack.Name, PackVersion: info.PackVersion, Digest: info.Digest}, err
}

func (s schemaSource) Validate(kind sdk.Kind, label string, values map[string]any) (diag.Diagnostics, []sdk.Use) {
	found, uses, err := s.Catalogue.Validate(s.t.Context(), kind, label, values)
	if err != nil {
		found.Errorf(nil, "Plugin failed", "%v", err)
	}
	return found, uses
}

// characters is a tokenizer with a token per character; 0 ends a sequence.
type characters struct{}

func (characters) EncodePieces(pieces []rollout.Piece) []int32 {
	var ids []int32
	for _, p := range pieces {
		ids = append(ids, []rune(p.Text)...)
	}
	return ids
}
func (characters) Decode(ids []int32) string { return string(ids) }
func (characters) Decoder() func(int32) string {
	return func(id int32) string { return string(id) }
}
func (characters) EOS() []int32            { return []int32{0} }
func (characters) SpecialTokens() []string { return nil }
func (characters) RenderChat(messages []rollout.Message) ([]rollout.Piece, error) {
	var pieces []rollout.Piece
	for _, m := range messages {
		pieces = append(pieces, m.Content...)
		pieces = append(pieces, rollout.Piece{Text: "\n", Trusted: true})
	}
	return pieces, nil
}

// scripted writes the turn that is to be written under a key.
type scripted struct{ turns map[rng.Key]string }

func (s *scripted) Generate(_ context.Context, rows []rollout.Row, _ sdk.Sampling) ([]rollout.Generated, error) {
	var out []rollout.Generated
	for _, row := range rows {
		text, ok := s.turns[row.Key]
		if !ok {
			return nil, fmt.Errorf("row %d goes on after its turns", row.ID)
		}
		var g rollout.Generated
		for _, id := range text {
			g.Tokens, g.LogProbs = append(g.Tokens, id), append(g.LogProbs, -1)
			if row.Stop(g.Tokens) {
				break
			}
		}
		out = append(out, g)
	}
	return out, nil
}
func (s *scripted) MaxContext() int        { return 1 << 16 }
func (s *scripted) Release(...int64)       {}
func (s *scripted) Park(int64, int) error  { return nil }
func (s *scripted) Fork(int64, int64, int) {}
func (s *scripted) Forget() error          { return nil }

func toolCall(name, argument, value string) string {
	data, err := json.Marshal(map[string]any{"name": name, "arguments": map[string]string{argument: value}})
	if err != nil {
		panic(err) // texts can be written as JSON
	}
	return "<think>I look.</think>\n<tool_call>" + string(data) + "</tool_call>"
}

// TestGRASPOnHotpotQA runs GRASP's own agent on real questions over the sentences of 500 questions' paragraphs: real
// indexes, real plugin processes, and a script in the place of the policy. It searches by meaning and by words with the
// question, reads both gold paragraphs and answers rightly. What that is worth follows from what the searches found.
func TestGRASPOnHotpotQA(t *testing.T) {
	if testing.Short() {
		t.Skip("indexes 20,000 sentences")
	}
	data, err := filepath.Abs(vectors.Shared(t, "data/hotpotqa_dev_distractor.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	catalogue := catalogueOf(t, "algorithms", "retrievers", "rewards")
	study, diags := experiment.Load(ctx, "testdata/grasp", experiment.Inputs{Vars: map[string]string{"data": data}}, schemaSource{t, catalogue})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	ablation, diags := study.Ablation("grasp")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	config, diags := study.Resolve(ablation, ablation.Arms[0], nil, 0)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if diags := Unsupported(config); diags.HasErrors() {
		t.Fatal(diags)
	}

	sup, err := host.NewSupervisor(catalogue, host.RunOptions{RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	}()
	res := newResources(config, t.TempDir(), nil)
	dispatch := dispatcher{}
	for name, tool := range config.Tools {
		if err := res.startTool(ctx, sup, tool); err != nil {
			t.Fatal(err)
		}
		dispatch[name] = res.tools[tool]
	}
	stage := config.Stages[0]
	asked, err := agent(stage.Agent, dispatch.descriptions())
	if err != nil {
		t.Fatal(err)
	}
	rewards := &scorer{config: stage.Reward}
	for _, source := range stage.Reward.Sources {
		spec, err := res.instance(ctx, source.Name, source.Plugin)
		if err != nil {
			t.Fatal(err)
		}
		reward, err := sup.Reward(ctx, spec, services{tools{res}})
		if err != nil {
			t.Fatal(err)
		}
		rewards.sources = append(rewards.sources, reward)
	}
	set, err := res.questions(ctx, stage.Train, config.Tools)
	if err != nil {
		t.Fatal(err)
	}
	if n := res.indexes["index.sentences"].Len(); n < 15000 {
		t.Errorf("%d sentences, want those of 500 questions", n)
	}

	script := &scripted{turns: map[rng.Key]string{}}
	var jobs []rollout.Job
	questions := map[string]episode.Question{}
	for i := range set.Len() {
		q, err := set.At(i)
		if err != nil {
			t.Fatal(err)
		}
		questions[q.ID] = q
		if len(q.Gold) != 2 {
			t.Fatalf("question %s has %d golds", q.ID, len(q.Gold))
		}
		turns := []string{
			toolCall("semantic_search", "query", q.Text), toolCall("keyword_search", "query", q.Text),
			toolCall("read_paragraph", "paragraph_id", q.Gold[0].Title), toolCall("read_paragraph", "paragraph_id", strings.ToUpper(q.Gold[1].Title)),
			"<think>Now I know.</think>\n<answer>" + q.Answers[0] + "</answer>",
		}
		if i%3 == 2 { // some also waste a turn
			turns = slices.Insert(turns, 3, "<tool_call>read it</tool_call>")
		}
		key := rng.New(uint64(i))
		for n, text := range turns {
			script.turns[key.With(uint64(n))] = text
		}
		jobs = append(jobs, rollout.Job{ID: fmt.Sprint("e", i), Question: q, Agent: asked, Sampling: sampling(stage.Sampling), Key: key})
	}
	engine := &rollout.Engine{Sampler: script, Tokenizer: characters{}, Tools: dispatch}
	episodes, err := engine.Run(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if err := rewards.score(ctx, episodes, questions, false); err != nil {
		t.Fatal(err)
	}

	kinds := map[string]int{}
	for _, ep := range episodes {
		if err := rollout.Check(ep, characters{}); err != nil {
			t.Fatal(err)
		}
		q := questions[ep.QuestionID]
		want, kind := expected(t, q, ep)
		kinds[kind]++
		if got := ep.Rewards.Total; math.Abs(got-want) > 1e-9 {
			t.Errorf("question %s (%s): reward %v, want %v: %+v", q.ID, kind, got, want, ep.Rewards.Leaves)
		}
		if leaf := ep.Rewards.Leaves["grasp"]; math.Abs(leaf.Value-want) > 1e-9 {
			t.Errorf("question %s: the plugin's own total %v, want %v", q.ID, leaf.Value, want)
		}
	}
	t.Logf("of %d questions: %v", len(episodes), kinds)
	if kinds["2 read, both searches"] < 5 || len(kinds) < 3 {
		t.Errorf("the questions do not tell the cases apart: %v", kinds)
	}
	checkText(t, episodes)
}

// expected computes the reward from what the first two turns found, by titles alone.
func expected(t *testing.T, q episode.Question, ep *rollout.Episode) (reward float64, kind string) {
	t.Helper()
	turns := len(ep.Turns)
	if turns < 5 || ep.Answer == nil || *ep.Answer != strings.TrimSpace(q.Answers[0]) {
		t.Fatalf("question %s: the script was not followed: %+v", q.ID, ep.Episode)
	}
	found := func(turn int, title string) bool {
		return slices.ContainsFunc(ep.Turns[turn].Hits, func(h episode.Hit) bool { return h.Title == title })
	}
	for _, turn := range ep.Turns[:2] {
		if len(turn.Hits) != 5 {
			t.Errorf("question %s: %s found %d sentences", q.ID, turn.Tool, len(turn.Hits))
		}
		for _, h := range turn.Hits {
			if !strings.HasPrefix(h.SentenceID, h.ParagraphID+".s") {
				t.Errorf("sentence %q of paragraph %q", h.SentenceID, h.ParagraphID)
			}
		}
	}
	read := 0
	for i, g := range q.Gold {
		turn := ep.Turns[2+i]
		if turns > 5 && i == 1 {
			turn = ep.Turns[4]
		}
		if !found(0, g.Title) && !found(1, g.Title) {
			if turn.Error == "" || len(turn.Hits) > 0 || !strings.Contains(turn.Observation, "No search has found") {
				t.Errorf("question %s: %q was read although no search had found it: %+v", q.ID, g.Title, turn)
			}
			continue
		}
		read++
		if len(turn.Hits) != 1 || turn.Hits[0].Title != g.Title || turn.Hits[0].SentenceID != "" {
			t.Errorf("question %s: %q was not read: %+v", q.ID, g.Title, turn)
		}
	}
	// Both the golds and what was read are sets of two and of read documents, of which read are common.
	reward = 1 + 0.70*2*float64(read)/float64(read+2)
	kind = fmt.Sprint(read, " read")
	either := func(turn int) bool { return found(turn, q.Gold[0].Title) || found(turn, q.Gold[1].Title) }
	if either(0) && either(1) {
		reward += 0.15
		kind += ", both searches"
	}
	return reward + 0.15*(1-float64(turns)/10), kind
}

// checkText: the agent reads ids, titles, texts and the turns it has left.
func checkText(t *testing.T, episodes []*rollout.Episode) {
	t.Helper()
	for _, ep := range episodes {
		for i, turn := range ep.Turns[:2] {
			h := turn.Hits[0]
			line := fmt.Sprintf("\n<tool_response>\n[1] (%s) %s: %s\n", h.ParagraphID, h.Title, h.Text)
			if !strings.HasPrefix(turn.Observation, line) || !strings.HasSuffix(turn.Observation, fmt.Sprintf("\nturns left: %d\n</tool_response>\n", 9-i)) {
				t.Fatalf("got %q, want it to begin with %q", turn.Observation, line)
			}
		}
		if turn := ep.Turns[2]; turn.Error == "" {
			h := turn.Hits[0]
			if want := fmt.Sprintf("\n<tool_response>\n(%s) %s\n%s\nturns left: 7\n</tool_response>\n", h.ParagraphID, h.Title, h.Text); turn.Observation != want {
				t.Fatalf("got %q, want %q", turn.Observation, want)
			}
			return
		}
	}
	t.Error("no first gold was read")
}
