package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Defaults of [Config].
const (
	DefaultConcurrency = 8
	DefaultTimeout     = 2 * time.Minute
	DefaultRetries     = 5
	defaultBackoff     = time.Second
	defaultMaxBody     = 8 << 20
)

// longestWait bounds a wait between two attempts, whatever the service asks for.
const longestWait = 2 * time.Minute

// Config says which model is asked, and how. URL and Model are required.
type Config struct {
	URL    string // base, such as http://127.0.0.1:8000/v1; "/chat/completions" is added where it does not end so
	Model  string // as the service calls it
	KeyEnv string // environment variable that holds the key; "" sends none

	Concurrency int           // requests under way at once; 0: DefaultConcurrency
	Timeout     time.Duration // of one attempt; 0: DefaultTimeout
	Retries     int           // further attempts after a failed one; 0: DefaultRetries, below 0: none
	Backoff     time.Duration // before the second attempt, doubled before each further one; 0: a second
	MaxBody     int64         // bytes of an answer; 0: 8 MiB
	Cache       *Cache        // of answers; nil: none
}

// Message is a part of a dialogue: Role is system, user or assistant.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Request asks for the next message of a dialogue.
type Request struct {
	Messages  []Message
	Stop      []string // at most four are sent, which is what services take
	MaxTokens int      // 0: the service's default
	// Temperature 0 is greedy. TopP of 0 or 1, and TopK of 0, are not sent.
	Temperature float64
	TopP        float64
	TopK        int // not all services know it
	// Seed of the sampling, which not all services heed; nil sends none.
	Seed *int64
}

// Answer is what the model wrote.
type Answer struct {
	Text string `json:"text"`
	// Finish is the service's finish_reason: stop, length, ...
	Finish string `json:"finish,omitempty"`
	// Stopped is the stop string that ended it, where the service says so. The text does not hold it.
	Stopped string `json:"stopped,omitempty"`
	// Tokens as the service counted them; 0 where it did not.
	PromptTokens     int `json:"prompt_tokens,omitempty"`
	CompletionTokens int `json:"completion_tokens,omitempty"`
}

// mostStops is how many stop strings OpenAI's interface takes.
const mostStops = 4

// Client asks one model. It may be used by many goroutines.
type Client struct {
	config Config
	url    string // in full
	shown  string // in messages: without user, password and query
	key    string
	http   *http.Client
	slots  chan struct{}
}

// New makes a client. It sends nothing.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("the endpoint's url cannot be read: expected such as http://127.0.0.1:8000/v1") // err quotes it whole
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the endpoint's url %q is not one of http or https: expected such as http://127.0.0.1:8000/v1", redacted(u))
	}
	if c.Model == "" {
		return nil, fmt.Errorf("endpoint %s: the model's name is missing", redacted(u))
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		u = u.JoinPath("chat", "completions")
	}
	client := &Client{url: u.String(), shown: redacted(u)}
	if c.KeyEnv != "" {
		if client.key = strings.TrimSpace(os.Getenv(c.KeyEnv)); client.key == "" {
			return nil, fmt.Errorf("endpoint %s: the environment variable %s, which is to hold its key, is not set", client.shown, c.KeyEnv)
		}
	}
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Retries = cmp.Or(c.Retries, DefaultRetries)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	if c.Concurrency < 0 || c.Timeout < 0 || c.Backoff < 0 || c.MaxBody < 0 {
		return nil, fmt.Errorf("endpoint %s: concurrency, timeout, backoff and size of answers must not be negative", client.shown)
	}
	client.config, client.slots = c, make(chan struct{}, c.Concurrency)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = c.Concurrency
	client.http = &http.Client{Transport: transport}
	return client, nil
}

// redacted is a URL that may be shown.
func redacted(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	return shown.String()
}

// URL is the address that requests go to, as messages show it.
func (c *Client) URL() string { return c.shown }

// Close gives idle connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// CompleteAll asks for several answers, at most as many at once as the configuration says. They come in the order of
// the requests. The first failure ends the others.
func (c *Client) CompleteAll(ctx context.Context, requests []Request) ([]Answer, error) {
	answers := make([]Answer, len(requests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.config.Concurrency)
	for i, r := range requests {
		group.Go(func() (err error) {
			answers[i], err = c.Complete(ctx, r)
			return err
		})
	}
	return answers, group.Wait()
}

// wireRequest is a request as it is sent.
type wireRequest struct {
	Model       string    `json:"model"`
	Messages    []Message `json:"messages"`
	MaxTokens   int       `json:"max_tokens,omitempty"`
	Temperature float64   `json:"temperature"`
	TopP        float64   `json:"top_p,omitempty"`
	TopK        int       `json:"top_k,omitempty"`
	Stop        []string  `json:"stop,omitempty"`
	Seed        *int64    `json:"seed,omitempty"`
}

// Complete asks for one answer: from the cache if it has been given before, else from the service. A connection that
// fails, an attempt that takes too long, and the statuses 408, 409, 425, 429 and from 500 on are tried again after a
// wait, which Retry-After may set. Other failures are errors at once.
func (c *Client) Complete(ctx context.Context, r Request) (Answer, error) {
	if len(r.Messages) == 0 {
		return Answer{}, fmt.Errorf("endpoint %s: a request needs a message", c.shown)
	}
	wire := wireRequest{
		Model: c.config.Model, Messages: r.Messages, MaxTokens: r.MaxTokens, Temperature: r.Temperature, TopK: r.TopK,
		Stop: r.Stop[:min(len(r.Stop), mostStops)], Seed: r.Seed,
	}
	if r.TopP != 1 {
		wire.TopP = r.TopP
	}
	body, err := json.Marshal(wire)
	if err != nil {
		return Answer{}, fmt.Errorf("endpoint %s: %w", c.shown, err)
	}
	digest := digestOf(c.shown, body)
	if have, ok := c.config.Cache.get(digest); ok {
		return have, nil
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("endpoint %s: %w", c.shown, ctx.Err())
	}
	defer func() { <-c.slots }()
	wait := c.config.Backoff
	for attempt := 0; ; attempt++ {
		answer, err := c.attempt(ctx, body)
		if err == nil {
			return c.config.Cache.put(digest, answer)
		}
		var failed *failure
		if ctx.Err() != nil || !errors.As(err, &failed) || !failed.again {
			return Answer{}, fmt.Errorf("endpoint %s, model %s: %w", c.shown, c.config.Model, err)
		}
		if attempt >= c.config.Retries {
			return Answer{}, fmt.Errorf("endpoint %s, model %s, after %d attempts: %w; see that the service runs, and that url and model are what it has", c.shown, c.config.Model, attempt+1, err)
		}
		if failed.after > longestWait {
			return Answer{}, fmt.Errorf("endpoint %s, model %s: it asks to wait %s; try again later: %w", c.shown, c.config.Model, failed.after, err)
		}
		timer := time.NewTimer(min(max(wait, failed.after), longestWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Answer{}, fmt.Errorf("endpoint %s: %w; the last attempt: %w", c.shown, ctx.Err(), err)
		}
		wait = min(2*wait, longestWait)
	}
}

// longestReach is how long a service may take to say that it is there.
const longestReach = 30 * time.Second

// Reach looks whether the service answers and takes the key, before anything is built on it. It asks for the list of
// models, which costs nothing; services need not have one, so that no other answer than a refused key is held against
// them.
func (c *Client) Reach(parent context.Context) error {
	wrap := func(err error) error {
		return fmt.Errorf("endpoint %s does not answer: %w; see that the service runs, and that url is its own", c.shown, err)
	}
	ctx, cancel := context.WithTimeout(parent, min(c.config.Timeout, longestReach))
	defer cancel()
	u, err := url.Parse(c.url)
	if err != nil {
		return wrap(errors.New("its url cannot be read"))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("..", "..", "models").String(), nil)
	if err != nil {
		return wrap(errors.New("the request cannot be made"))
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the outer one quotes the URL whole
		}
		return wrap(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		return fmt.Errorf("endpoint %s: status %s%s", c.shown, response.Status, advice(response.StatusCode))
	}
	return nil
}

// failure is an attempt that failed.
type failure struct {
	err   error
	again bool          // another attempt may do better
	after time.Duration // that the service asks to wait
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func (c *Client) attempt(parent context.Context, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(parent, c.config.Timeout)
	defer cancel()
	lost := func(err error) error {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the outer one quotes the URL whole
		}
		if parent.Err() == nil && ctx.Err() != nil {
			err = fmt.Errorf("no whole answer within %s: %w", c.config.Timeout, context.DeadlineExceeded)
		}
		return &failure{err: err, again: true}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return Answer{}, errors.New("the request cannot be made: check the url")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, lost(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, c.config.MaxBody+1))
	if err != nil {
		return Answer{}, lost(fmt.Errorf("status %d, then the answer broke off: %w", response.StatusCode, err))
	}
	if int64(len(data)) > c.config.MaxBody {
		return Answer{}, fmt.Errorf("status %d with more than %d bytes, beginning %s; an answer may not be longer", response.StatusCode, c.config.MaxBody, c.begin(data))
	}
	if response.StatusCode != http.StatusOK {
		return Answer{}, &failure{
			err:   fmt.Errorf("status %s: %s%s", response.Status, c.begin(data), advice(response.StatusCode)),
			again: transient(response.StatusCode), after: retryAfter(response.Header.Get("Retry-After"), time.Now()),
		}
	}
	return c.parse(data)
}

func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; check the key in the environment variable that key_env names"
	case http.StatusNotFound:
		return "; check url (its base, such as http://host:8000/v1) and model"
	}
	return ""
}

// retryAfter reads a number of seconds or a time; 0 where there is neither.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseFloat(header, 64); err == nil && seconds > 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// begin shows how a body begins, without the key.
func (c *Client) begin(data []byte) string {
	text := strings.ToValidUTF8(string(data), "?")
	if c.key != "" {
		text = strings.ReplaceAll(text, c.key, "[key]")
	}
	if text = strings.TrimSpace(text); text == "" {
		return "an empty body"
	}
	const most = 300
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}

func (c *Client) parse(data []byte) (Answer, error) {
	var wire struct {
		Choices []struct {
			Message *struct {
				Content *string `json:"content"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
			StopReason   any    `json:"stop_reason"` // vLLM: the stop string, or the number of a token
		} `json:"choices"`
		Usage struct {
			PromptTokens     int `json:"prompt_tokens"`
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return Answer{}, fmt.Errorf("status 200, but the answer is no JSON of a chat completion (%w): %s; is it an OpenAI-compatible service?", err, c.begin(data))
	}
	if len(wire.Choices) == 0 || wire.Choices[0].Message == nil {
		return Answer{}, fmt.Errorf("status 200, but the answer has no choices[0].message: %s", c.begin(data))
	}
	choice := wire.Choices[0]
	a := Answer{Finish: choice.FinishReason, PromptTokens: max(0, wire.Usage.PromptTokens), CompletionTokens: max(0, wire.Usage.CompletionTokens)}
	if choice.Message.Content != nil {
		a.Text = strings.ToValidUTF8(*choice.Message.Content, "�")
	}
	a.Stopped, _ = choice.StopReason.(string)
	return a, nil
}
