package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve runs a service and makes a client of it.
func serve(t *testing.T, change func(*Config), handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := Config{URL: server.URL + "/v1", Model: "m", Backoff: time.Nanosecond}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func say(w http.ResponseWriter, text string) {
	fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":"stop","stop_reason":"</a>"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, text)
}

func hello() Request {
	seed := int64(5)
	return Request{
		Messages: []Message{{"system", "s"}, {"user", "u"}}, Stop: []string{"a", "b", "c", "d", "e"}, MaxTokens: 9, Temperature: .5, TopP: 1, Seed: &seed,
	}
}

func TestComplete(t *testing.T) {
	t.Setenv("TEST_KEY", "secret-key")
	var path, key string
	var body map[string]any
	c := serve(t, func(c *Config) { c.KeyEnv = "TEST_KEY" }, func(w http.ResponseWriter, r *http.Request) {
		path, key = r.URL.Path, r.Header.Get("Authorization")
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		say(w, "hi")
	})
	got, err := c.Complete(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	if want := (Answer{"hi", "stop", "</a>", 7, 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if path != "/v1/chat/completions" || key != "Bearer secret-key" {
		t.Errorf("path %q, authorization %q", path, key)
	}
	if len(body["stop"].([]any)) != 4 || body["max_tokens"] != 9. || body["temperature"] != .5 || body["seed"] != 5. || body["model"] != "m" {
		t.Errorf("body %v", body)
	}
	if _, sent := body["top_p"]; sent {
		t.Error("top_p of 1 was sent")
	}
}

func TestRetries(t *testing.T) {
	for _, status := range []int{408, 429, 500, 502, 503} {
		var asked atomic.Int32
		c := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) < 3 {
				w.WriteHeader(status)
				return
			}
			say(w, "at last")
		})
		got, err := c.Complete(t.Context(), hello())
		if err != nil || got.Text != "at last" || asked.Load() != 3 {
			t.Errorf("status %d: %q after %d attempts: %v", status, got.Text, asked.Load(), err)
		}
	}
}

func TestRetriesEnd(t *testing.T) {
	t.Setenv("TEST_KEY", "secret-key")
	for status, attempts := range map[int]int32{500: 3, 400: 1, 401: 1, 404: 1, 501: 1} {
		var asked atomic.Int32
		c := serve(t, func(c *Config) { c.Retries, c.KeyEnv = 2, "TEST_KEY" }, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
			fmt.Fprint(w, "broken, your key is secret-key ", strings.Repeat("x", 1000))
		})
		_, err := c.Complete(t.Context(), hello())
		if err == nil || asked.Load() != attempts {
			t.Fatalf("status %d: %v after %d attempts, want %d", status, err, asked.Load(), attempts)
		}
		for _, part := range []string{c.URL(), fmt.Sprint(status), "broken, your key is [key]"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("status %d: the error lacks %q: %v", status, part, err)
			}
		}
		if strings.Contains(err.Error(), "secret-key") || len(err.Error()) > 700 {
			t.Errorf("status %d: the error shows the key or too much: %v", status, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0.5": time.Second / 2, "-1": 0, "soon": 0, "1e300": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	// A wait beyond all patience is no wait: the error says what the service asks for.
	c := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(429)
	})
	if _, err := c.Complete(t.Context(), hello()); err == nil || !strings.Contains(err.Error(), "24h") {
		t.Errorf("got %v", err)
	}
	// One within it is waited for.
	var first time.Time
	var waited time.Duration
	c = serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		if first.IsZero() {
			first = time.Now()
			w.Header().Set("Retry-After", "0.05")
			w.WriteHeader(429)
			return
		}
		waited = time.Since(first)
		say(w, "ok")
	})
	if _, err := c.Complete(t.Context(), hello()); err != nil || waited < 50*time.Millisecond {
		t.Errorf("waited %s: %v", waited, err)
	}
}

func TestBadAnswers(t *testing.T) {
	for body, want := range map[string]string{
		"<html>login</html>":                  "no JSON",
		"":                                    "empty body",
		`{"choices":[]}`:                      "choices[0]",
		`{"error":{"message":"no such one"}}`: "no such one",
		`{"choices":"many"}`:                  "no JSON",
		strings.Repeat(" ", 5000) + "{}":      "more than 4096 bytes",
	} {
		var asked atomic.Int32
		c := serve(t, func(c *Config) { c.MaxBody = 4096 }, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = io.WriteString(w, body)
		})
		_, err := c.Complete(t.Context(), hello())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.URL()) || asked.Load() != 1 {
			t.Errorf("%.30q: got %v after %d attempts, want %q", body, err, asked.Load(), want)
		}
	}
	c := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":null},"finish_reason":"length"}]}`)
	})
	if got, err := c.Complete(t.Context(), hello()); err != nil || got != (Answer{Finish: "length"}) {
		t.Errorf("an answer without a text: %+v, %v", got, err)
	}
}

func TestBrokenConnection(t *testing.T) {
	var asked atomic.Int32
	c := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"choices"`)
			panic(http.ErrAbortHandler)
		}
		say(w, "whole")
	})
	if got, err := c.Complete(t.Context(), hello()); err != nil || got.Text != "whole" {
		t.Errorf("%q, %v", got.Text, err)
	}
	c, err := New(Config{URL: "http://127.0.0.1:1/v1?token=secret-token", Model: "m", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Complete(t.Context(), hello()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1/v1/chat/completions") || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestHangingService(t *testing.T) {
	release := make(chan struct{})
	hang := func(http.ResponseWriter, *http.Request) { <-release }
	var asked atomic.Int32
	c := serve(t, func(c *Config) { c.Timeout, c.Retries = 10*time.Millisecond, 1 }, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		hang(w, r)
	})
	_, err := c.Complete(t.Context(), hello())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 10ms") || asked.Load() != 2 {
		t.Errorf("after %d attempts: %v", asked.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var once sync.Once
	c = serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(begun) })
		hang(w, r)
	})
	go func() {
		<-begun
		cancel()
	}()
	if _, err := c.Complete(ctx, hello()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	close(release)
}

// TestReach: a service that is not there or refuses the key is found out without asking its model anything.
func TestReach(t *testing.T) {
	t.Setenv("TEST_KEY", "secret")
	var status atomic.Int32
	var asked atomic.Value
	c := serve(t, func(c *Config) { c.KeyEnv = "TEST_KEY" }, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization"))
		w.WriteHeader(int(status.Load()))
	})
	for code, want := range map[int32]string{
		http.StatusOK: "", http.StatusNotFound: "", http.StatusServiceUnavailable: "", http.StatusUnauthorized: "key_env", http.StatusForbidden: "key_env",
	} {
		status.Store(code)
		err := c.Reach(t.Context())
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("status %d: %v", code, err)
		}
		if got := asked.Load(); got != "GET /v1/models Bearer secret" {
			t.Errorf("asked %v", got)
		}
	}
	server := httptest.NewServer(nil)
	server.Close() // its port is free again: nobody answers
	gone, err := New(Config{URL: server.URL + "/v1?token=hidden", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("no service: %v", err)
	}
}

func TestConcurrency(t *testing.T) {
	var now, most atomic.Int32
	full := make(chan struct{})
	c := serve(t, func(c *Config) { c.Concurrency = 3 }, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			before := most.Load()
			if n <= before || most.CompareAndSwap(before, n) {
				break
			}
		}
		if n == 3 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		<-full // so that three do meet
		var body struct{ Messages []Message }
		_ = json.NewDecoder(r.Body).Decode(&body)
		say(w, "re: "+body.Messages[0].Content)
	})
	requests := make([]Request, 20)
	for i := range requests {
		requests[i].Messages = []Message{{"user", fmt.Sprint(i)}}
	}
	answers, err := c.CompleteAll(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Text != fmt.Sprintf("re: %d", i) {
			t.Errorf("answer %d is %q", i, a.Text)
		}
	}
	if most.Load() != 3 {
		t.Errorf("%d requests at once, want 3", most.Load())
	}
}

func TestNew(t *testing.T) {
	for _, bad := range []Config{
		{URL: "ftp://host/v1", Model: "m"}, {URL: "host:80", Model: "m"}, {URL: "http://h/v1"}, {URL: "://", Model: "m"},
		{URL: "http://h/v1", Model: "m", KeyEnv: "FORAGE_TEST_UNSET"}, {URL: "http://h", Model: "m", Concurrency: -1},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	for _, url := range []string{"http://h/v1", "http://h/v1/", "http://h/v1/chat/completions", "http://u:p@h/v1/chat/completions/?q=1"} {
		c, err := New(Config{URL: url, Model: "m"})
		if err != nil || strings.TrimRight(c.URL(), "/") != "http://h/v1/chat/completions" {
			t.Errorf("%s: %v, %v", url, c, err)
		}
	}
}

func TestCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "answers.jsonl")
	var asked atomic.Int32
	handler := func(w http.ResponseWriter, _ *http.Request) { say(w, fmt.Sprint("answer ", asked.Add(1))) }
	cache, err := OpenCache(path)
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t, func(c *Config) { c.Cache = cache }, handler)
	other := hello()
	other.Temperature = 1
	var texts []string
	for _, r := range []Request{hello(), other, hello()} {
		a, err := c.Complete(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, a.Text)
	}
	if want := []string{"answer 1", "answer 2", "answer 1"}; !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	// A line that was being written when the process died is dropped, and the others are found again.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"request":"ab`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if cache, err = OpenCache(path); err != nil {
		t.Fatal(err)
	}
	c.config.Cache = cache
	third := hello()
	third.Temperature = 2
	for r, want := range map[*Request]string{new(hello()): "answer 1", &other: "answer 2", &third: "answer 3"} {
		if a, err := c.Complete(t.Context(), *r); err != nil || a.Text != want {
			t.Errorf("got %q, %v; want %q", a.Text, err, want)
		}
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	if cache, err = OpenCache(path); err != nil || cache.Len() != 3 {
		t.Fatalf("%v, %v", cache, err)
	}
	cache.Close()
	if err := os.WriteFile(path, []byte("nonsense\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(path); err == nil || !strings.Contains(err.Error(), "answers.jsonl:1") {
		t.Errorf("got %v", err)
	}
	// A cache that cannot be written to is an error and no silent loss.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if cache, err = OpenCache(path); err != nil {
		t.Fatal(err)
	}
	cache.Close()
	c.config.Cache = cache
	if _, err := c.Complete(t.Context(), hello()); err == nil {
		t.Error("an answer that could not be kept was given")
	}
}

func TestStartsNothing(t *testing.T) {
	var asked atomic.Int32
	c := serve(t, nil, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	if _, err := c.Complete(t.Context(), Request{}); err == nil || asked.Load() != 0 {
		t.Errorf("an empty request: %v, asked %d times", err, asked.Load())
	}
}
