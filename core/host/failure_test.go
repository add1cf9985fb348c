package host

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func reward(t *testing.T, s *Supervisor, spec InstanceSpec, host sdk.Host) *RewardClient {
	t.Helper()
	spec.Name, spec.Label = "reward.test", "testing"
	r, err := s.Reward(within(t), spec, host)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantError wants an error whose text holds all parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error lacks %q:\n%v", p, err)
		}
	}
}

// eventually waits for a condition of the outside, such as the end of a stranger's process.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// pids reads what grandchild wrote.
func pids(t *testing.T, file string) (plugin, child int) {
	t.Helper()
	eventually(t, "the plugin started its child", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &plugin, &child); err != nil {
		t.Fatal(err)
	}
	return plugin, child
}

func TestCrashInACall(t *testing.T) {
	s, dir := supervise(t, bundle(t, "forage-good"))
	quick := RestartPolicy{Max: 2, MinPause: time.Millisecond}
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "exit"}, Restart: quick}, nil)
	_, err := r.Score(within(t), sdk.ScoreRequest{Items: make([]sdk.ScoreItem, 1)})
	wantError(t, err, "reward.test", "exit status 7", "last words", "restarted 2 times")
	var crash *CrashError
	if !errors.As(err, &crash) || !strings.Contains(crash.Stderr, "last words") {
		t.Errorf("error %#v", err)
	}
	if n := s.Stats()[0].Restarts; n != 2 {
		t.Errorf("%d restarts", n)
	}
	log, err := os.ReadFile(filepath.Join(dir, "logs", "reward.test.log"))
	if err != nil || strings.Count(string(log), "last words") != 3 {
		t.Errorf("log %q, error %v", log, err)
	}
}

func TestCrashOfAGoroutineShowsThePanic(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "goroutine panic"}, Restart: RestartPolicy{Max: -1}}, nil)
	_, err := r.Score(within(t), sdk.ScoreRequest{})
	wantError(t, err, "reward.test", "exit status 2", "panic: fatal ouch", "goroutine")
}

func TestStatelessPluginIsRestartedAndAskedAgain(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{
		Values: map[string]any{"mode": "exit once", "file": filepath.Join(t.TempDir(), "crashed")}, Restart: RestartPolicy{MinPause: time.Millisecond},
	}, nil)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			out, err := r.Score(within(t), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Episode: testEpisode("e", 2)}}})
			if err != nil || len(out.Scores) != 1 || out.Scores[0].Value != 1 {
				t.Errorf("scores %+v, error %v", out, err)
			}
		})
	}
	callers.Wait()
	if n := s.Stats()[0].Restarts; n != 1 {
		t.Errorf("%d restarts for one crash", n)
	}
}

func TestAlgorithmIsRestartedOnlyFromState(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	a, err := s.Algorithm(within(t), InstanceSpec{
		Name: "stage.main.algorithm", Label: "testing", Values: map[string]any{"mode": "exit"}, Restart: RestartPolicy{Max: 1, MinPause: time.Millisecond},
	}, rolloutHost(3))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = a.Step(within(t), sdk.StepRequest{})
		wantError(t, err, "stage.main.algorithm", "exit status 7", "last words")
	}
	if err := a.Restart(within(t), []byte("the checkpoint")); err != nil {
		t.Fatal(err)
	}
	if state, err := a.Save(within(t)); err != nil || string(state) != "the checkpoint" {
		t.Errorf("state %q, error %v", state, err)
	}
	wantError(t, a.Restart(within(t), nil), "restarted 1 times")
}

func TestPanicIsAnError(t *testing.T) {
	s, dir := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "panic"}}, nil)
	for range 2 { // the process lives on
		_, err := r.Score(within(t), sdk.ScoreRequest{})
		wantError(t, err, "reward.test", "the plugin panicked: ouch; its log has the stack")
		if _, crashed := errors.AsType[*CrashError](err); crashed {
			t.Error("it counts as a crash")
		}
	}
	eventually(t, "the log has the stack", func() bool {
		log, err := os.ReadFile(filepath.Join(dir, "logs", "reward.test.log"))
		return err == nil && strings.Contains(string(log), "testReward")
	})
}

func TestFailuresOfStartAndConfiguration(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	for mode, parts := range map[string][]string{
		"crash in start": {"exit status 4", "no good start"},
		"panic in start": {"panicked: no good start"},
	} {
		_, err := s.Reward(within(t), InstanceSpec{Name: "reward.test", Label: "testing", Values: map[string]any{"mode": mode}}, nil)
		wantError(t, err, append(parts, "reward.test")...)
	}
	if n := len(s.Stats()); n != 0 {
		t.Errorf("%d instances are left", n)
	}
}

func TestHangEndsAtTheDeadline(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "hang"}, Timeout: 50 * time.Millisecond}, nil)
	_, err := r.Score(within(t), sdk.ScoreRequest{})
	wantError(t, err, "reward.test", "Score", "no answer within 50ms")
	if _, ok := errors.AsType[*StuckError](err); !ok {
		t.Errorf("error %#v", err)
	}
}

func TestCancelledCallLeavesThePluginAlone(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "hang"}}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Score(ctx, sdk.ScoreRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if !r.instance.current.runner.process.running() {
		t.Error("the process was ended")
	}
}

func TestLoopingStepIsStuck(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	a, err := s.Algorithm(within(t), InstanceSpec{
		Name: "stage.main.algorithm", Label: "testing", Values: map[string]any{"mode": "loop"}, Timeout: 200 * time.Millisecond, StuckAfter: time.Minute,
	}, rolloutHost(1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Step(within(t), sdk.StepRequest{})
	wantError(t, err, "stage.main.algorithm", "neither ended nor called the host within 200ms")
}

func TestWhatIsStuck(t *testing.T) {
	i := &instance{spec: InstanceSpec{Timeout: 100 * time.Second, StuckAfter: 10 * time.Second}}
	second := int64(time.Second)
	for name, test := range map[string]struct {
		alive, hostActivity, hostCalls int64
		want                           string
	}{
		"working":          {999 * second, 950 * second, 0, ""},
		"silent":           {980 * second, 999 * second, 1, "no sign of life within 10s"},
		"looping":          {999 * second, 800 * second, 0, "neither ended nor called the host within 1m40s"},
		"waiting for host": {999 * second, 100 * second, 1, ""},
	} {
		err := i.stepStuck(1000*second, test.alive, test.hostActivity, test.hostCalls)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStoppedPluginAndItsChildEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	c := bundle(t, "forage-good")
	s, err := NewSupervisor(c, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Algorithm(within(t), InstanceSpec{
		Name: "a", Label: "testing", Values: map[string]any{"mode": "child", "file": file}, StuckAfter: 3 * time.Second,
	}, rolloutHost(1))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := a.Step(within(t), sdk.StepRequest{})
		failed <- err
	}()
	plugin, child := pids(t, file)
	if err := syscall.Kill(plugin, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-failed, "no sign of life")
	eventually(t, "plugin and child are gone", func() bool { return !alive(plugin) && !alive(child) })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.sockets.path); !os.IsNotExist(err) {
		t.Errorf("the sockets are left: %v", err)
	}
}

func TestCloseEndsAStoppedPluginAndItsChild(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "child", "file": file}}, nil)
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Fatal(err)
	}
	plugin, child := pids(t, file)
	if err := syscall.Kill(plugin, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-within(t).Done():
		t.Fatal("Close hangs")
	}
	eventually(t, "plugin and child are gone", func() bool { return !alive(plugin) && !alive(child) })
}

func TestChildrenEndWithACrashedPlugin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "child", "file": file}}, nil)
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Fatal(err)
	}
	plugin, child := pids(t, file)
	if err := syscall.Kill(plugin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is gone", func() bool { return !alive(child) })
}

func TestPluginEndsWithAKilledHost(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(dir)
	install(t, o.BundleDir, "forage-good")
	if err := WriteBundle(o.BundleDir); err != nil {
		t.Fatal(err)
	}
	install(t, dir, "forage-host")
	file := filepath.Join(dir, "pids")
	host := exec.Command(filepath.Join(dir, "forage-host"), dir, file)
	in, err := host.StdinPipe() // kept open: the host waits on it
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	host.Stderr = t.Output()
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready <nil>\n" {
		t.Fatalf("the host says %q, error %v", line, err)
	}
	plugin, child := pids(t, file)
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	if !alive(plugin) {
		t.Fatal("the plugin is gone before its host")
	}
	left := fmt.Sprintf("%s%d-*", socketPrefix, host.Process.Pid) // its folder of sockets
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait() // "signal: killed"
	eventually(t, "the plugin is gone", func() bool { return !alive(plugin) })
	// The next host removes the sockets of the killed one.
	sockets, err := newSocketDir()
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.close()
	if found, err := filepath.Glob(filepath.Join(filepath.Dir(sockets.path), left)); err != nil || len(found) > 0 {
		t.Errorf("sockets of the killed host are left: %v, error %v", found, err)
	}
}

func TestNoiseBeforeTheHandshake(t *testing.T) {
	c := bundle(t, "forage-noise")
	_, err := c.Schema(within(t), sdk.KindReward, "testing")
	wantError(t, err, "forage-noise", `"hello from init"`, "before sdk.Serve")
	// The same in a real start.
	sockets, err := newSocketDir()
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.close()
	id, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	_, err = launch{pack: c.Packs()[0], name: "reward.test", identity: id, sockets: sockets, log: t.Output(), logger: testLogger(t), timeout: time.Minute}.start(within(t))
	wantError(t, err, "reward.test", "forage-noise", `printed "hello from init" to standard output`)
}

func TestNoiseAfterTheHandshakeIsLogged(t *testing.T) {
	s, dir := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "noise"}}, nil)
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log has it", func() bool {
		log, err := os.ReadFile(filepath.Join(dir, "logs", "reward.test.log"))
		return err == nil && strings.Contains(string(log), "noise on standard output") && (runtime.GOOS != "linux" || strings.Contains(string(log), "noise on descriptor 1"))
	})
}

// start starts a pack past its description.
func startRaw(t *testing.T, pack string, timeout time.Duration) error {
	t.Helper()
	c := bundle(t, pack)
	sockets, err := newSocketDir()
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.close()
	id, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	connection, err := launch{pack: c.Packs()[0], name: "reward.test", identity: id, sockets: sockets, log: t.Output(), logger: testLogger(t), timeout: timeout}.start(within(t))
	if err == nil {
		connection.stop()
	}
	return err
}

func TestStartFailures(t *testing.T) {
	for pack, parts := range map[string][]string{
		"forage-future":  {"forage-future", "protocol 99", "only 1", "forage is too old", "go install"},
		"forage-past":    {"forage-past", "protocol 0", "the pack is too old", "go get", "go build"},
		"forage-plain":   {"reward.test", "forage-plain", "encrypted"},
		"forage-dies":    {"reward.test", "ended before the handshake", "exit status 3", "about to start"},
		"forage-no-pack": {"reward.test", "exit status 2", "no plugin pack", "usage: no-pack FILE"},
	} {
		t.Run(pack, func(t *testing.T) { wantError(t, startRaw(t, pack, time.Minute), parts...) })
	}
}

func TestSlowStartEnds(t *testing.T) {
	wantError(t, startRaw(t, "forage-slow", 200*time.Millisecond), "forage-slow", "did not finish its start within 200ms")
}

func TestDescribeFailures(t *testing.T) {
	for pack, parts := range map[string][]string{
		"forage-future":  {"forage-future", "protocol 99", "forage is too old"},
		"forage-no-pack": {"forage-no-pack", "exit status 2", "no plugin pack", "usage: no-pack FILE"},
	} {
		t.Run(pack, func(t *testing.T) {
			_, err := bundle(t, pack).Schema(within(t), sdk.KindReward, "r")
			wantError(t, err, parts...)
		})
	}
}

func TestLargeMessages(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	text := strings.Repeat("x", 8<<20)
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "big", "number": float64(1 << 20)}}, nil)
	out, err := r.Score(within(t), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: episode.Question{Text: text}}}})
	if err != nil || out.Scores[0].Components["text"] != float64(len(text)) || len(out.Scores[0].Turns) != 1<<20 {
		t.Fatalf("8 MiB each way: %v", err)
	}
	if testing.Short() {
		t.Skip("messages of 64 MiB")
	}
	const limit, frame = 64 << 20, 1 << 10 // frame: what a message holds beside its text
	under := strings.Repeat("x", limit-frame)
	if _, err := r.Score(within(t), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: episode.Question{Text: under}}}}); err != nil {
		t.Errorf("just under the limit: %v", err)
	}
	over := strings.Repeat("x", limit)
	_, err = r.Score(within(t), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: episode.Question{Text: over}}}})
	wantError(t, err, "reward.test", "limit of 64 MiB")
	for size, want := range map[int]string{limit - frame: "", limit: "limit of 64 MiB"} {
		retriever, err := s.Retriever(within(t), InstanceSpec{Name: fmt.Sprintf("tool.%d", size), Label: "testing", Values: map[string]any{"mode": "big", "number": float64(size)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch _, err = retriever.Call(within(t), sdk.CallRequest{Calls: make([]sdk.Call, 1)}); {
		case want != "":
			wantError(t, err, "tool.", want)
		case err != nil:
			t.Errorf("an answer just under the limit: %v", err)
		}
	}
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Errorf("after a message over the limit: %v", err)
	}
}

func TestLargeMessagesFromHostServices(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	size := 8 << 20
	host := &scripted{search: func(context.Context, sdk.SearchRequest) ([][]episode.Hit, error) {
		return [][]episode.Hit{{{Text: strings.Repeat("x", size)}}}, nil
	}}
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "host"}}, host)
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("messages of 64 MiB")
	}
	size = 64 << 20
	_, err := r.Score(within(t), sdk.ScoreRequest{})
	wantError(t, err, "limit of 64 MiB")
}

func TestLargeMessagesToHostServices(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	got := 0
	host := &scripted{search: func(_ context.Context, r sdk.SearchRequest) ([][]episode.Hit, error) {
		got = len(r.Queries[0])
		return nil, nil
	}}
	for size, want := range map[int]string{8 << 20: "", 64 << 20: "limit of 64 MiB"} {
		if want != "" && testing.Short() {
			continue
		}
		r, err := s.Reward(within(t), InstanceSpec{Name: fmt.Sprintf("reward.%d", size), Label: "testing", Values: map[string]any{"mode": "big to host", "number": float64(size)}}, host)
		if err != nil {
			t.Fatal(err)
		}
		switch _, err := r.Score(within(t), sdk.ScoreRequest{}); {
		case want != "":
			wantError(t, err, want)
		case err != nil || got != size:
			t.Errorf("%d bytes of %d, error %v", got, size, err)
		}
	}
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "sentinel"}}, nil)
	_, err := r.Score(within(t), sdk.ScoreRequest{})
	wantError(t, err, "reward.test", `what is "x"`)
	if !errors.Is(err, sdk.ErrUnknownHandle) {
		t.Errorf("error %v", err)
	}
}

func TestCycleIsRefused(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	var r *RewardClient
	host := &scripted{search: func(ctx context.Context, _ sdk.SearchRequest) ([][]episode.Hit, error) {
		_, err := r.Score(ctx, sdk.ScoreRequest{})
		return nil, err
	}}
	r = reward(t, s, InstanceSpec{Values: map[string]any{"mode": "host"}}, host)
	_, err := r.Score(within(t), sdk.ScoreRequest{})
	wantError(t, err, "reward.test -> reward.test", "must not depend on itself")
}

func TestEnvironmentIsAllowListed(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "env"}, Env: map[string]string{"GIVEN": "yes"}}, nil)
	_, err := r.Score(within(t), sdk.ScoreRequest{})
	wantError(t, err, "GIVEN=yes", "PATH=", "TMPDIR="+s.sockets.path)
	if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "GOROOT") || strings.Contains(err.Error(), "GOTOOLCHAIN") {
		t.Errorf("the environment leaks:\n%v", err)
	}
}

func TestIntruderIsRefused(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	r := reward(t, s, InstanceSpec{}, &scripted{})
	sockets, err := filepath.Glob(filepath.Join(s.sockets.path, "*", "plugin*"))
	if err != nil || len(sockets) < 2 {
		t.Fatalf("sockets %v, error %v", sockets, err)
	}
	stranger, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int64
	connect := func(t *testing.T, socket string, c credentials.TransportCredentials) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:socket", grpc.WithTransportCredentials(c),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
				if err == nil {
					reached.Add(1)
				}
				return conn, err
			}))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for name, credentials := range map[string]credentials.TransportCredentials{
		"plain":          insecure.NewCredentials(),
		"no certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"own certificate": credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{stranger.certificate}, RootCAs: x509.NewCertPool(),
		}),
	} {
		for _, socket := range sockets { // the plugin's, and the one of the host's services
			t.Run(name, func(t *testing.T) {
				conn := connect(t, socket, credentials)
				defer conn.Close()
				// Unavailable: the connection does not come about. Any other answer is one of a server.
				reached.Store(0)
				if _, err := pb.NewPackClient(conn).List(within(t), &pb.ListRequest{}); status.Code(err) != codes.Unavailable || reached.Load() == 0 {
					t.Errorf("the intruder is let in, or did not get as far as the socket: %v", err)
				}
				if _, err := pb.NewHostClient(conn).Questions(within(t), &pb.QuestionsRequest{}); status.Code(err) != codes.Unavailable {
					t.Errorf("the intruder is let in: %v", err)
				}
			})
		}
	}
	// The same with the host's certificate: one of the sockets is the plugin's.
	let := 0
	for _, socket := range sockets {
		conn := connect(t, socket, credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{s.identity.certificate}}))
		if _, err := pb.NewPackClient(conn).List(within(t), &pb.ListRequest{}); err == nil {
			let++
		}
		conn.Close()
	}
	if let != 1 {
		t.Errorf("%d sockets let the host's certificate in", let)
	}
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Errorf("the host itself: %v", err)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	s, _ := supervise(t, bundle(t, "forage-good"))
	var mu sync.Mutex
	now, most := 0, 0
	entered, release := make(chan struct{}, 12), make(chan struct{})
	host := &scripted{search: func(ctx context.Context, _ sdk.SearchRequest) ([][]episode.Hit, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		entered <- struct{}{}
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		return nil, nil
	}}
	r := reward(t, s, InstanceSpec{Values: map[string]any{"mode": "host"}, MaxInFlight: 2}, host)
	var callers sync.WaitGroup
	for range 12 {
		callers.Go(func() {
			if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	<-entered
	<-entered
	for range 10 {
		release <- struct{}{}
		<-entered
	}
	release <- struct{}{}
	release <- struct{}{}
	callers.Wait()
	if most != 2 {
		t.Errorf("%d calls at once", most)
	}
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	c := bundle(t, "forage-good")
	if _, _, err := c.Validate(within(t), sdk.KindReward, "testing", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	s, err := NewSupervisor(c, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := reward(t, s, InstanceSpec{}, &scripted{})
	if _, err := r.Score(within(t), sdk.ScoreRequest{}); err != nil {
		t.Fatal(err)
	}
	pid := r.instance.current.runner.process.cmd.Process.Pid
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("the process is left")
	}
	if stats := s.Stats(); len(stats) != 1 || stats[0].Calls != 1 {
		t.Errorf("the account of a closed instance is lost: %+v", stats)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := os.Stat(s.sockets.path); !os.IsNotExist(err) {
		t.Errorf("the sockets are left: %v", err)
	}
	ctx := within(t)
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before || ctx.Err() != nil })
}
