package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// The test binary is also every pack of these tests: a link to it named forage-NAME serves the pack NAME.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if serve, ok := testPacks()[name]; ok {
		serve()
		return
	}
	os.Exit(m.Run())
}

func testPacks() map[string]func() {
	return map[string]func(){
		"forage-good":    func() { sdk.Serve(goodPack("forage-good")) },
		"forage-other":   func() { sdk.Serve(goodPack("forage-other")) },
		"forage-noise":   func() { fmt.Println("hello from init"); sdk.Serve(goodPack("forage-noise")) },
		"forage-future":  func() { rawPack("forage-future", 99, "1|99|unix|/nowhere|grpc|") },
		"forage-past":    func() { rawPack("forage-past", 1, "1|0|unix|/nowhere|grpc|") },
		"forage-plain":   func() { rawPack("forage-plain", 1, "1|1|unix|/nowhere|grpc|") },
		"forage-dies":    func() { rawPack("forage-dies", 1, ""); os.Exit(3) },
		"forage-no-pack": func() { fmt.Fprintln(os.Stderr, "usage: no-pack FILE"); os.Exit(2) },
		"forage-slow":    func() { rawPack("forage-slow", 1, ""); hang() },
		"forage-host":    hostProcess,
	}
}

// rawPack describes itself well, and then shakes hands as it is told.
func rawPack(name string, protocol int, handshake string) {
	if len(os.Args) == 2 {
		fmt.Printf(`{"name":%q,"version":"1.0.0","protocol":%d,"sdk_version":"9.9.9","plugins":[{"kind":"reward","name":"r","description":"d","schema":{}}]}`+"\n", name, protocol)
		return
	}
	fmt.Fprintln(os.Stderr, "about to start")
	if handshake != "" {
		fmt.Println(handshake)
		hang() // until the host ends it
	}
}

// hang waits for what never comes, as a process does that got stuck.
func hang() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	_, _ = r.Read(make([]byte, 1))
	runtime.KeepAlive(w)
}

type config struct {
	Mode   string  `forage:"mode" default:"" doc:"What the test plugin does."`
	Number float64 `forage:"number" default:"1" min:"0" doc:"A number."`
	File   string  `forage:"file" default:"" doc:"A file of the test."`
}

func (c *config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Number == 13 {
		ds.Errorf(diag.Attr("number"), "Unlucky number", "13 brings bad luck.")
	}
	return ds
}

func goodPack(name string) sdk.Pack {
	return sdk.Pack{
		Name: name, Version: "1.2.3",
		Rewards: []sdk.RewardPlugin{sdk.NewReward("testing", "A reward for tests.", "", func(ctx context.Context, c config, host sdk.Host) (sdk.Reward, error) {
			switch c.Mode {
			case "crash in start":
				fmt.Fprintln(os.Stderr, "no good start")
				os.Exit(4)
			case "panic in start":
				panic("no good start")
			}
			return &testReward{config: c, host: host}, nil
		})},
		Algorithms: []sdk.AlgorithmPlugin{sdk.NewAlgorithm("testing", "An algorithm for tests.", "", func(ctx context.Context, c config, host sdk.Host) (sdk.Algorithm, error) {
			return &testAlgorithm{config: c, host: host}, nil
		})},
		Retrievers: []sdk.RetrieverPlugin{sdk.NewRetriever("testing", "A retriever for tests.", "", func(ctx context.Context, c config, host sdk.Host) (sdk.Retriever, error) {
			return &testRetriever{config: c, host: host}, nil
		})},
	}
}

type testReward struct {
	config config
	host   sdk.Host
}

// once is true the first time that it is called with a file, over all processes.
func once(file string) bool {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func (r *testReward) Score(ctx context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	switch r.config.Mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(7)
	case "exit once":
		if once(r.config.File) {
			os.Exit(7)
		}
	case "panic":
		panic("ouch")
	case "goroutine panic":
		go panic("fatal ouch")
		select {}
	case "hang":
		<-ctx.Done()
		select {}
	case "sentinel":
		return sdk.ScoreResponse{}, fmt.Errorf("what is %q: %w", "x", sdk.ErrUnknownHandle)
	case "noise":
		fmt.Println("noise on standard output")
		// As C code prints, past os.Stdout.
		_, _ = syscall.Write(1, []byte("noise on descriptor 1\n"))
	case "env":
		return sdk.ScoreResponse{}, errors.New(strings.Join(os.Environ(), "\n"))
	case "host":
		if _, err := r.host.Search(ctx, sdk.SearchRequest{Index: "i", Queries: []string{"q"}, K: 1}); err != nil {
			return sdk.ScoreResponse{}, err
		}
	case "big to host":
		if _, err := r.host.Search(ctx, sdk.SearchRequest{Index: "i", Queries: []string{strings.Repeat("x", int(r.config.Number))}, K: 1}); err != nil {
			return sdk.ScoreResponse{}, err
		}
	case "child":
		if err := grandchild(r.config.File); err != nil {
			return sdk.ScoreResponse{}, err
		}
	}
	out := sdk.ScoreResponse{Scores: make([]sdk.Score, len(req.Items))}
	for i, item := range req.Items {
		out.Scores[i] = sdk.Score{Value: r.config.Number * float64(len(item.Episode.Turns)), Components: map[string]float64{"text": float64(len(item.Question.Text))}}
		if r.config.Mode == "big" {
			out.Scores[i].Turns = make([]float64, int(r.config.Number))
		}
	}
	return out, nil
}

// grandchild starts a child of the plugin that holds its standard error, and writes both process ids to file.
func grandchild(file string) error {
	cmd := exec.Command("sleep", "1000")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, fmt.Appendf(nil, "%d %d\n", os.Getpid(), cmd.Process.Pid), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

type testAlgorithm struct {
	config config
	host   sdk.Host
	state  []byte
}

func (a *testAlgorithm) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	o, err := objective.New("loss", objective.TrainsPolicy, objective.TokenMean(objective.NLL(), ""), nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{o}, Critic: &sdk.Critic{Warmup: 2}}, err
}

func (a *testAlgorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	switch a.config.Mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(7)
	case "loop":
		hang()
	case "child":
		if err := grandchild(a.config.File); err != nil {
			return sdk.StepResponse{}, err
		}
		select {}
	}
	var requests []sdk.RolloutRequest
	for _, q := range req.Questions {
		requests = append(requests, sdk.RolloutRequest{RequestID: q.ID, QuestionID: q.ID, N: 5})
	}
	rollouts, err := a.host.Rollout(ctx, requests)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	out := sdk.StepResponse{Metrics: map[string]float64{"inf": math.Inf(1)}}
	update := sdk.Update{Objective: "loss"}
	for _, r := range rollouts {
		for _, e := range r.Episodes {
			update.Samples = append(update.Samples, sdk.Sample{EpisodeID: e.ID, TokenFields: map[string][]float32{
				"advantage": make([]float32, e.Sequences[0].ResponseLength()), "returns": make([]float32, e.Sequences[0].ResponseLength()),
			}})
		}
	}
	out.Updates = append(out.Updates, update)
	a.state = fmt.Appendf(nil, "step %d", req.Step)
	return out, nil
}

func (a *testAlgorithm) Save(context.Context) ([]byte, error) { return a.state, nil }

func (a *testAlgorithm) Load(_ context.Context, state []byte) error {
	a.state = state
	return nil
}

type testRetriever struct {
	config config
	host   sdk.Host
}

func (r *testRetriever) Tool(context.Context) (sdk.Tool, error) {
	return sdk.Tool{Name: "search", Description: "Searches.", Arguments: []sdk.Argument{{Name: "query", Type: "string", Required: true}}}, nil
}

func (r *testRetriever) Call(ctx context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	out := sdk.CallResponse{Results: make([]sdk.CallResult, len(req.Calls))}
	for i, c := range req.Calls {
		switch r.config.Mode {
		case "big":
			out.Results[i].Hits = []episode.Hit{{Text: strings.Repeat("x", int(r.config.Number))}}
		default:
			out.Results[i].Hits = []episode.Hit{{DocumentID: "d", Text: fmt.Sprint(c.Arguments["query"])}}
		}
	}
	return out, nil
}

// hostProcess is a host of its own, to be killed: it starts a plugin that starts a child, and says so.
func hostProcess() {
	dir, file := os.Args[1], os.Args[2]
	ctx := context.Background()
	c, err := Discover(ctx, testOptions(dir))
	if err == nil {
		var s *Supervisor
		s, err = NewSupervisor(c, RunOptions{})
		if err == nil {
			var r *RewardClient
			r, err = s.Reward(ctx, InstanceSpec{Name: "reward.test", Label: "testing", Values: map[string]any{"mode": "child", "file": file}}, nil)
			if err == nil {
				_, err = r.Score(ctx, sdk.ScoreRequest{})
			}
		}
	}
	fmt.Println("ready", err)
	// Until the test kills it.
	_, _ = os.Stdin.Read(make([]byte, 1))
}
