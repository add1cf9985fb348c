package study

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// reader is a service whose model knows nothing but can read: it follows the relations of a question of the embedded
// world through the documents that it is shown, and searches for those that it lacks if it is asked to.
type reader struct {
	mu       sync.Mutex
	asked    int
	keys     map[string]bool
	dialogue [][]message // of requests whose dialogue has begun
	tellStop bool        // says which stop string ended an answer, as vLLM does
	fail     int         // requests to come that fail
}

type message struct{ Role, Content string }

func (s *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model       string
		Messages    []message
		Stop        []string
		Temperature *float64
		Seed        *int64
		MaxTokens   int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Model != "reader" || body.Seed == nil || body.Temperature == nil || body.MaxTokens == 0 {
		http.Error(w, fmt.Sprintf("bad request %+v: %v", body, err), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked++
	s.keys[r.Header.Get("Authorization")] = true
	failing := s.fail > 0
	if failing {
		s.fail--
	}
	if len(body.Messages) > 2 {
		s.dialogue = append(s.dialogue, body.Messages)
	}
	s.mu.Unlock()
	if failing {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	text, stopped := s.write(body.Messages), any(nil)
	for _, stop := range body.Stop {
		if before, _, found := strings.Cut(text, stop); found {
			text = before
			if s.tellStop {
				stopped = stop
			}
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop", "stop_reason": stopped}},
		"usage":   map[string]any{"prompt_tokens": 11, "completion_tokens": len(strings.Fields(text)) + 1},
	})
}

// write is the next message of the model.
func (s *reader) write(messages []message) string {
	var read string
	for _, m := range messages {
		if m.Role == "user" {
			read += " " + m.Content
		}
	}
	_, question, _ := strings.Cut(read, "what is ")
	question, _, _ = strings.Cut(question, " ?")
	parts := strings.Split(question, " 's ")
	at := parts[0]
	for _, relation := range parts[1:] {
		_, document, found := strings.Cut(read, "( "+at+" ) ")
		document, _, _ = strings.Cut(document, "(")
		_, object, stated := strings.Cut(document, relation+" is ")
		if !found || !stated {
			if messages[0].Role == "system" {
				return "<answer>unknown</answer>"
			}
			return "<think> " + relation + " </think> <search> " + at + " " + relation + " </search> and more that is not to be read"
		}
		at, _, _ = strings.Cut(object, " .")
	}
	return "<answer> " + at + " </answer> The end."
}

func serveReader(t *testing.T, s *reader) string {
	t.Helper()
	s.keys = map[string]bool{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("FORAGE_TEST_ENDPOINT_KEY", "key-of-the-test")
	return server.URL + "/v1"
}

// TestPoliciesBehindEndpoints: a model behind a service searches and answers turn by turn, and writes the answers from
// what another policy found, whose searches are what is counted.
func TestPoliciesBehindEndpoints(t *testing.T) {
	for _, tellStop := range []bool{true, false} {
		t.Run(fmt.Sprint("tells what stopped it ", tellStop), func(t *testing.T) { policiesBehindEndpoints(t, tellStop) })
	}
}

func policiesBehindEndpoints(t *testing.T, tellStop bool) {
	service := &reader{tellStop: tellStop, fail: 2}
	url := serveReader(t, service)
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/endpoint", "endpoint", map[string]string{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	dir := record.Study{Dir: t.TempDir()}
	summary, err := Execute(t.Context(), e.options(p, dir.Dir))
	if err != nil || summary.Done != 2 {
		t.Fatalf("%v, %+v", err, summary)
	}
	if diff := cmp.Diff(map[string]bool{"Bearer key-of-the-test": true}, service.keys); diff != "" {
		t.Error(diff)
	}
	for _, r := range p.Runs {
		result, ok, err := dir.Run(r.ID).ReadResult()
		if err != nil || !ok {
			t.Fatal(err)
		}
		// What it recorded of its configuration is the same run with the same evaluations.
		again, err := e.plan(t.Context(), dir.Run(r.ID).ConfigPath(), "", nil)
		if err != nil || len(again.Runs) != 1 || again.Runs[0].ID != r.ID {
			t.Fatalf("%s: the recorded configuration: %v", r.Cell.Arm, err)
		}
		if missing, err := run.MissingEvaluations(again.Runs[0].Config, result); err != nil || len(missing) > 0 {
			t.Errorf("%s: the recorded configuration has other evaluations: %v, %v", r.Cell.Arm, missing, err)
		}
		figures := map[string]map[string]float64{}
		for _, ev := range result.Evaluations {
			figures[ev.Name] = ev.Metrics
		}
		episodes, err := run.ReadEvaluationEpisodes(dir.Run(r.ID), "test")
		if err != nil || len(episodes) != 10 {
			t.Fatalf("%d episodes: %v", len(episodes), err)
		}
		switch r.Cell.Arm {
		case "service":
			if figures["test"]["em"] < .9 || figures["test"]["searches"] < 2 {
				t.Errorf("the model that can read has figures %v", figures)
			}
			checkRemoteEpisodes(t, episodes)
		case "answered":
			if !(figures["test"]["searches"] == figures["alone"]["searches"] && figures["own"]["policy_tokens"] == figures["alone"]["policy_tokens"]) {
				t.Errorf("searches and tokens are not those of the episodes: %v", figures)
			}
			checkAnswered(t, episodes, "policy.service", "reader")
			own, err := run.ReadEvaluationEpisodes(dir.Run(r.ID), "own")
			if err != nil {
				t.Fatal(err)
			}
			checkAnswered(t, own, "writer", "found")
		}
	}
	if len(service.dialogue) == 0 {
		t.Error("no request went on with a dialogue")
	}
	for _, messages := range service.dialogue {
		for i, m := range messages {
			if want := []string{"user", "assistant"}[i%2]; m.Role != want || strings.Contains(m.Content, "not to be read") {
				t.Fatalf("message %d of %+v is to be the %s's", i, messages, want)
			}
		}
		if last := messages[len(messages)-1].Content; !strings.HasPrefix(last, "<information>") || !strings.HasSuffix(last, "</information>") {
			t.Errorf("the last message is no observation: %q", last)
		}
	}
	noKeyOnDisk(t, dir.Dir)
}

func checkRemoteEpisodes(t *testing.T, episodes []run.Recorded) {
	t.Helper()
	for _, ep := range episodes {
		if ep.Stop != episode.StopAnswered || ep.Tokens != nil || ep.LogProbs != nil || ep.AnsweredBy != nil {
			t.Errorf("%s: stop %s, tokens %v", ep.ID, ep.Stop, ep.Tokens)
		}
		words := 0
		for _, turn := range ep.Turns {
			words += len(strings.Fields(turn.Text))
			if turn.Action == episode.ActionCall && (turn.Thought == "" || !strings.HasSuffix(turn.Text, "</search>") || len(turn.Hits) != 2) {
				t.Errorf("%s: turn %+v", ep.ID, turn)
			}
		}
		if n := ep.Counters.PolicyTokens; n < words/2 || n > 2*words {
			t.Errorf("%s: %d tokens of the policy in %d words", ep.ID, n, words)
		}
	}
}

func checkAnswered(t *testing.T, episodes []run.Recorded, policy, agent string) {
	t.Helper()
	shown, answered := 0, 0
	for _, ep := range episodes {
		by := ep.AnsweredBy
		if by == nil || by.Policy != policy || by.Agent != agent || by.Text == "" {
			t.Fatalf("%s: answered by %+v", ep.ID, by)
		}
		if ep.Answer != nil && strings.Contains(by.Text, *ep.Answer) {
			answered++
		}
		var found []string
		for _, h := range ep.Hits() {
			if !slices.Contains(found, h.DocumentID) {
				found = append(found, h.DocumentID)
			}
		}
		if diff := cmp.Diff(found, by.Evidence); diff != "" {
			t.Errorf("%s: what was found, and what was shown:\n%s", ep.ID, diff)
		}
		shown += len(by.Evidence)
		if last := ep.Turns[len(ep.Turns)-1]; last.Action == episode.ActionAnswer && (by.PolicyAnswer == nil || !strings.Contains(last.Text, *by.PolicyAnswer)) {
			t.Errorf("%s: its own answer is lost: %+v", ep.ID, by)
		}
	}
	if shown == 0 || answered < len(episodes)/2 {
		t.Errorf("%d documents were shown, %d of %d answers are what was written", shown, answered, len(episodes))
	}
}

func noKeyOnDisk(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), "key-of-the-test") {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEndpointsResume: a run that failed because its service broke down goes on with the answers that it got before.
func TestEndpointsResume(t *testing.T) {
	service := &reader{}
	url := serveReader(t, service)
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/endpoint", "endpoint", map[string]string{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r plan.Run) bool { return r.Cell.Arm != "service" })
	dir := record.Study{Dir: t.TempDir()}
	if summary, err := Execute(t.Context(), e.options(p, dir.Dir)); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	whole, first := service.asked, dir.Run(p.Runs[0].ID)
	want, _, err := first.ReadResult()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := filepath.Glob(filepath.Join(first.Dir, "endpoints", "*.jsonl"))
	if err != nil || len(answers) != 1 {
		t.Fatalf("%v, %v", answers, err)
	}
	kept, err := os.ReadFile(answers[0])
	if err != nil {
		t.Fatal(err)
	}
	// As if it had been killed half way.
	again := record.Study{Dir: t.TempDir()}
	path := filepath.Join(again.Run(first.ID).Dir, "endpoints", filepath.Base(answers[0]))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(kept), "\n")
	half := len(lines) / 2
	if err := os.WriteFile(path, []byte(strings.Join(lines[:half], "")+lines[half][:20]), 0o644); err != nil {
		t.Fatal(err)
	}
	service.asked = 0
	if summary, err := Execute(t.Context(), e.options(p, again.Dir)); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	if service.asked != whole-half {
		t.Errorf("%d of %d answers were kept, %d were asked for again", half, whole, service.asked)
	}
	got, _, err := again.Run(first.ID).ReadResult()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Evaluations[0].Metrics, got.Evaluations[0].Metrics); diff != "" {
		t.Error(diff)
	}
}

// TestEndpointFailures: what cannot be done with a service is said before anything is asked, or by the run that failed.
func TestEndpointFailures(t *testing.T) {
	service := &reader{fail: 1000}
	url := serveReader(t, service)
	e := testEnv(t)
	if _, err := e.plan(t.Context(), "testdata/endpoint", "trained", map[string]string{"url": url}); err == nil || !strings.Contains(err.Error(), "main.hcl:") || !strings.Contains(err.Error(), "never trained") {
		t.Errorf("training: %v", err)
	}
	p, err := e.plan(t.Context(), "testdata/endpoint", "endpoint", map[string]string{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r plan.Run) bool { return r.Cell.Arm != "service" })
	failure := func() string {
		t.Helper()
		dir := record.Study{Dir: t.TempDir()}
		summary, err := Execute(t.Context(), e.options(p, dir.Dir))
		if err == nil && summary.Failed == 0 {
			t.Fatal("it did not fail")
		}
		states, err := dir.States()
		if err != nil {
			t.Fatal(err)
		}
		return states[p.Runs[0].ID].Message
	}
	if text := failure(); !strings.Contains(text, url) || !strings.Contains(text, "503") || !strings.Contains(text, "after 3 attempts") {
		t.Errorf("the service is down: %s", text)
	}
	p, err = e.plan(t.Context(), "testdata/endpoint", "endpoint", map[string]string{"url": "http://127.0.0.1:1/v1"})
	if err != nil {
		t.Fatal(err)
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r plan.Run) bool { return r.Cell.Arm != "service" })
	asked := service.asked
	if text := failure(); !strings.Contains(text, "does not answer") || !strings.Contains(text, "main.hcl:") || service.asked != asked {
		t.Errorf("no service: %s", text)
	}
	os.Unsetenv("FORAGE_TEST_ENDPOINT_KEY")
	if text := failure(); !strings.Contains(text, "FORAGE_TEST_ENDPOINT_KEY") || !strings.Contains(text, "main.hcl:") || service.asked != asked {
		t.Errorf("no key: %s", text)
	}
}
