package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/forage-rl/forage/core/internal/wire"
)

// stopGrace is how long a plugin may take to end by itself.
const stopGrace = time.Second

// launch says how to start a process of a pack.
type launch struct {
	pack     Pack
	name     string // of the instance, for logs and errors
	env      []string
	identity *identity
	sockets  *socketDir
	log      io.Writer // raw output
	logger   *slog.Logger
	timeout  time.Duration
	dial     []grpc.DialOption
}

// connection is a running process and the connection to it.
type connection struct {
	client  *plugin.Client
	runner  *packRunner
	conn    *grpc.ClientConn
	broker  *plugin.GRPCBroker
	stopped sync.Once
}

// start starts the process and connects to it. The pack is checked at the last moment.
func (l launch) start(ctx context.Context) (*connection, error) {
	if err := l.pack.startable(); err != nil {
		return nil, err
	}
	r := &packRunner{launch: l, output: &lockedWriter{w: l.log}, logged: make(chan struct{})}
	timeout := l.timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginKey: dialer{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, tmpDir string) (runner.Runner, error) {
			return r, r.prepare(cmd.Env, tmpDir)
		},
		TLSConfig:        l.identity.config(),
		StartTimeout:     timeout,
		SyncStdout:       &lineWriter{to: r.output, logger: l.logger},
		SyncStderr:       &lineWriter{to: r.output, logger: l.logger},
		Logger:           hclog.NewNullLogger(), // the process's output is read here, not by go-plugin
		GRPCDialOptions:  append(wire.DialOptions(), l.dial...),
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: l.sockets.path},
	})
	c := &connection{client: client, runner: r}
	cancelled := context.AfterFunc(ctx, r.stop)
	defer cancelled()
	_, err := client.Start()
	if err == nil && !r.encrypted() {
		err = errors.New("it does not offer an encrypted connection")
	}
	if err != nil {
		err = l.startError(ctx, r, err)
		c.stop()
		return nil, err
	}
	protocol, err := client.Client()
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("connect to plugin %s: %w", l.name, err)
	}
	raw, err := protocol.Dispense(wire.PluginKey)
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("connect to plugin %s: %w", l.name, err)
	}
	dialled := raw.(*dialled)
	c.conn, c.broker = dialled.conn, dialled.broker
	return c, nil
}

// startError says why a start failed, in the order of what is most telling.
func (l launch) startError(ctx context.Context, r *packRunner, err error) error {
	where := fmt.Sprintf("plugin %s (pack %s, %s)", l.name, l.pack.Name, l.pack.Path)
	line := r.handshake()
	parts := strings.Split(line, "|")
	switch {
	case r.process == nil:
		return fmt.Errorf("%s cannot be executed: %w", where, err)
	case ctx.Err() != nil:
		return fmt.Errorf("start %s: %w", where, context.Cause(ctx))
	case len(parts) >= 4 && parts[0] == strconv.Itoa(plugin.CoreProtocolVersion):
		if theirs, convErr := strconv.Atoi(parts[1]); convErr == nil && theirs != wire.ProtocolVersion {
			return versionError(l.pack, theirs)
		}
		return fmt.Errorf("%s: %w", where, err)
	case line != "":
		return fmt.Errorf("%s printed %q to standard output before the handshake, so it cannot be connected to: "+
			"it is no plugin pack, or it prints before sdk.Serve (print to standard error instead)%s", where, cut(line, 200), r.stderrNote())
	case strings.Contains(err.Error(), "timeout while waiting") || !r.ended(time.Second):
		return fmt.Errorf("%s did not finish its start within %s%s", where, l.timeout, r.stderrNote())
	}
	return fmt.Errorf("%s ended before the handshake (%s): it is no plugin pack, or its start fails%s", where, r.process.state, r.stderrNote())
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// versionError says which side is too old and what to run.
func versionError(p Pack, theirs int) error {
	if theirs > wire.ProtocolVersion {
		return fmt.Errorf("plugin pack %s (%s) speaks plugin protocol %d and this forage only %d: forage is too old; update it, for example with "+
			"\"go install github.com/forage-rl/forage/core/cmd/forage@latest\"", p.Name, p.Path, theirs, wire.ProtocolVersion)
	}
	return fmt.Errorf("plugin pack %s (%s) speaks plugin protocol %d and this forage needs %d: the pack is too old; rebuild it with the present SDK: "+
		"\"go get github.com/forage-rl/forage@latest && go build -o %s .\" in its source, then \"forage init\"", p.Name, p.Path, theirs, wire.ProtocolVersion, p.Path)
}

// stop ends the process: politely first, by force when it does not answer. It returns when the process is gone.
func (c *connection) stop() {
	c.stopped.Do(func() {
		done := make(chan struct{})
		go func() {
			c.client.Kill() // hangs for as long as a plugin does
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(stopGrace):
		}
		c.runner.stop()
		<-done
		if c.runner.process != nil {
			<-c.runner.process.exited
			<-c.runner.logged
		}
	})
}

// dialer gives the connection of a started plugin as it is.
type dialer struct{ plugin.NetRPCUnsupportedPlugin }

type dialled struct {
	conn   *grpc.ClientConn
	broker *plugin.GRPCBroker
}

func (dialer) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host serves no packs")
}

func (dialer) GRPCClient(_ context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &dialled{conn: conn, broker: broker}, nil
}

// packRunner runs the process for go-plugin: it keeps the process's output and ends its whole group.
type packRunner struct {
	launch
	output *lockedWriter
	stderr tail

	cmd       *exec.Cmd
	process   *process // nil until started
	handshook io.Reader
	logged    chan struct{} // closed when all output is read

	mu        sync.Mutex
	firstLine string
	cancelled bool
}

var _ runner.Runner = (*packRunner)(nil)

// prepare makes the command from what go-plugin adds to the environment.
func (r *packRunner) prepare(handshakeEnv []string, tmpDir string) error {
	r.cmd = exec.Command(r.pack.Path)
	r.cmd.Env = append(append([]string{}, r.env...), handshakeEnv...)
	r.cmd.Env = append(r.cmd.Env, "TMPDIR="+tmpDir, wire.ClientCertEnv+"="+string(r.identity.pem), wire.HostPIDEnv+"="+strconv.Itoa(os.Getpid()))
	return nil
}

// Start implements [runner.Runner].
func (r *packRunner) Start(context.Context) error {
	p, err := startProcess(r.cmd)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.process = p
	cancelled := r.cancelled
	r.mu.Unlock()
	if cancelled {
		p.kill()
	}
	toHandshake, fromProcess := io.Pipe()
	r.handshook = toHandshake
	var streams sync.WaitGroup
	streams.Go(func() {
		defer p.stderr.Close()
		logLines(p.stderr, io.MultiWriter(&r.stderr, r.output), r.logger)
	})
	streams.Go(func() {
		defer p.stdout.Close()
		r.readStdout(p.stdout, fromProcess)
	})
	go func() {
		streams.Wait()
		close(r.logged)
	}()
	go func() {
		// A child that left the process group may hold the streams open for as long as it likes.
		<-p.exited
		deadline := time.Now().Add(stopGrace)
		// Both are pipes and take deadlines; a closed one has been read to its end.
		_ = p.stdout.SetReadDeadline(deadline)
		_ = p.stderr.SetReadDeadline(deadline)
	}()
	return nil
}

// readStdout hands the first line to the handshake and everything after it to the log.
func (r *packRunner) readStdout(stdout io.Reader, handshake *io.PipeWriter) {
	in := bufio.NewReaderSize(stdout, 16<<10)
	line, err := in.ReadSlice('\n')
	r.mu.Lock()
	r.firstLine = strings.TrimSpace(string(line))
	r.mu.Unlock()
	if err == nil || len(line) > 0 {
		// It fails only when the handshake was given up meanwhile.
		_, _ = handshake.Write(line)
	}
	handshake.Close()
	logLines(in, r.output, r.logger)
}

func (r *packRunner) handshake() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.firstLine
}

// encrypted says whether the plugin gave its certificate.
func (r *packRunner) encrypted() bool {
	parts := strings.Split(r.handshake(), "|")
	return len(parts) >= 6 && len(parts[5]) > 50
}

// ended waits a moment for the process to end.
func (r *packRunner) ended(within time.Duration) bool {
	select {
	case <-r.process.exited:
		<-r.logged
		return true
	case <-time.After(within):
		return false
	}
}

func (r *packRunner) stderrNote() string {
	if text := lastLines(r.stderr.String(), 20); text != "" {
		return "; its last messages:\n" + text
	}
	return ""
}

func (r *packRunner) stop() {
	r.mu.Lock()
	r.cancelled = true
	p := r.process
	r.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// Stdout implements [runner.Runner]: the handshake line only.
func (r *packRunner) Stdout() io.ReadCloser { return io.NopCloser(r.handshook) }

// Stderr implements [runner.Runner]: nothing, since go-plugin's own reader of log lines panics on some.
func (r *packRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait implements [runner.Runner].
func (r *packRunner) Wait(context.Context) error {
	<-r.process.exited
	return nil
}

// Kill implements [runner.Runner].
func (r *packRunner) Kill(context.Context) error {
	r.stop()
	return nil
}

// Diagnose implements [runner.Runner]; see startError instead.
func (r *packRunner) Diagnose(context.Context) string { return "" }

// Name implements [runner.Runner].
func (r *packRunner) Name() string { return r.name }

// ID implements [runner.Runner].
func (r *packRunner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return ""
	}
	return strconv.Itoa(r.process.cmd.Process.Pid)
}

// PluginToHost implements [runner.Runner].
func (r *packRunner) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements [runner.Runner].
func (r *packRunner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// lineWriter logs what go-plugin passes on of the plugin's streams.
type lineWriter struct {
	to     io.Writer
	logger *slog.Logger
	rest   []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	// The log describes a run; it must not fail it.
	_, _ = w.to.Write(b)
	w.rest = append(w.rest, b...)
	for {
		line, rest, found := strings.Cut(string(w.rest), "\n")
		if !found && len(w.rest) < maxLogLine {
			return len(b), nil
		}
		logLine(line, w.logger)
		w.rest = []byte(rest)
	}
}
