package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forage-rl/forage/core/internal/wire"
	"github.com/forage-rl/forage/core/internal/wire/hostside"
	"github.com/forage-rl/forage/core/sdk"
)

// instance is one configured plugin and its present process.
type instance struct {
	supervisor *Supervisor
	spec       InstanceSpec
	info       PluginInfo
	host       sdk.Host
	logger     *slog.Logger
	slots      *semaphore.Weighted
	account    account

	// What the plugin asks of the host, to tell a working step from a stuck one.
	hostCalls    atomic.Int64 // being served now
	hostActivity atomic.Int64 // time of the last begin or end, in nanoseconds

	turn chan struct{} // holds a token while someone starts or ends a process

	mu       sync.Mutex // guards the rest
	current  *running
	starts   []time.Time // of restarts in the window
	closed   bool
	stateful bool
}

// running is one process of an instance.
type running struct {
	*connection
	log    *os.File
	closed sync.Once
}

// crashed is the error of a process that ended by itself.
func (r *running) crashed(i *instance) *CrashError {
	return &CrashError{Plugin: i.spec.Name, Pack: i.info.Pack.Path, Exit: r.runner.process.state, Stderr: r.runner.stderr.String()}
}

func (r *running) end() (err error) {
	r.stop()
	r.closed.Do(func() { err = r.log.Close() })
	return err
}

// connect gives the present process, or starts one where there is none: old is the process that failed the caller,
// so that of several callers only the first replaces it.
func (i *instance) connect(ctx context.Context, old *running) (*running, error) {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	i.mu.Lock()
	current, closed := i.current, i.closed
	i.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("plugin %s is stopped", i.spec.Name)
	}
	if current != nil && current != old {
		return current, nil
	}
	if current != nil {
		if err := i.pauseBeforeRestart(ctx, current); err != nil {
			return nil, err
		}
		if err := current.end(); err != nil {
			i.logger.Warn("the log of a plugin cannot be closed", "error", err)
		}
	}
	fresh, err := i.launch(ctx)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	closed = i.closed
	if !closed {
		i.current = fresh
	}
	i.mu.Unlock()
	if closed {
		return nil, errors.Join(fmt.Errorf("plugin %s is stopped", i.spec.Name), fresh.end())
	}
	return fresh, nil
}

// pauseBeforeRestart spends one restart of the budget and waits as long as the policy says.
func (i *instance) pauseBeforeRestart(ctx context.Context, crashed *running) error {
	policy := i.spec.Restart
	now := time.Now()
	i.mu.Lock()
	for len(i.starts) > 0 && now.Sub(i.starts[0]) > policy.Window {
		i.starts = i.starts[1:]
	}
	n := len(i.starts)
	spent := n >= policy.Max
	if !spent {
		i.starts = append(i.starts, now)
	}
	i.mu.Unlock()
	if spent {
		crash := crashed.crashed(i)
		if policy.Max > 0 {
			crash.Spent = fmt.Sprintf("it was restarted %d times within %s already", n, policy.Window)
		}
		return crash
	}
	i.account.mu.Lock()
	i.account.stats.Restarts++
	i.account.mu.Unlock()
	pause := min(policy.MinPause<<min(n, 30), policy.MaxPause)
	i.logger.Warn("a plugin is started again", "exit", crashed.runner.process.state, "restart", n+1, "of", policy.Max, "pause", pause)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// launch starts and configures a process.
func (i *instance) launch(ctx context.Context) (*running, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, i.spec.StartTimeout, fmt.Errorf("plugin %s did not start within %s", i.spec.Name, i.spec.StartTimeout))
	defer cancel()
	log, err := i.supervisor.openLog(i.spec.Name)
	if err != nil {
		return nil, err
	}
	c, err := launch{
		pack: i.info.Pack, name: i.spec.Name, env: pluginEnv(i.supervisor.catalogue.options.env, i.spec.Env),
		identity: i.supervisor.identity, sockets: i.supervisor.sockets, log: log, logger: i.logger, timeout: i.spec.StartTimeout,
		dial: []grpc.DialOption{
			grpc.WithUnaryInterceptor(readTrailerUnary), grpc.WithStreamInterceptor(readTrailerStream),
			grpc.WithStatsHandler(byteCounter{&i.account}),
		},
	}.start(ctx)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	r := &running{connection: c, log: log}
	if err := i.configure(ctx, r); err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case r.died(ctx, err):
			err = r.crashed(i)
		}
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

// died waits a moment for the end of a process whose connection broke.
func (r *running) died(ctx context.Context, err error) bool {
	if !r.runner.process.running() {
		<-r.runner.logged
		return true
	}
	if s, ok := status.FromError(err); !ok || s.Code() != codes.Unavailable {
		return false
	}
	select {
	case <-r.runner.process.exited:
		<-r.runner.logged
		return true
	case <-time.After(stopGrace):
	case <-ctx.Done():
	}
	return false
}

func (i *instance) configure(ctx context.Context, r *running) error {
	var broker uint32
	if i.host != nil {
		broker = r.broker.NextId()
		go r.broker.AcceptAndServe(broker, func(options []grpc.ServerOption) *grpc.Server {
			return hostside.NewServer(i.host, hostside.ServerOptions{
				Instance: i.spec.Name, Logger: i.logger,
				Began: func() {
					i.hostCalls.Add(1)
					i.hostActivity.Store(time.Now().UnixNano())
				},
				Ended: func(inHost time.Duration) {
					i.hostActivity.Store(time.Now().UnixNano())
					i.hostCalls.Add(-1)
					i.account.servedHost(inHost)
				},
			}, append(options, grpc.StatsHandler(byteCounter{&i.account})))
		})
	}
	configured, err := hostside.NewPlugin(r.conn).Configure(ctx, hostside.Configuration{
		Plugin: hostside.Name{Kind: i.info.Kind, Name: i.info.Name}, Values: i.spec.Values, Instance: i.spec.Name, BrokerID: broker,
	})
	if err != nil {
		return fmt.Errorf("configure plugin %s: %w", i.spec.Name, wire.Limit(err, i.spec.Name))
	}
	if configured.Diagnostics.HasErrors() {
		return &ConfigError{Plugin: i.spec.Name, Diagnostics: configured.Diagnostics}
	}
	for _, d := range configured.Diagnostics {
		i.logger.Warn("warning about a plugin's configuration", "diagnostic", d.String())
	}
	i.mu.Lock()
	i.stateful = configured.Stateful
	i.mu.Unlock()
	return nil
}

// call makes one call, on a restarted process where the plugin keeps no state and the last one crashed. watch, if
// any, runs beside f and ends it by cancelling the context with a [StuckError] as cause.
func (i *instance) call(ctx context.Context, method string, watch func(context.Context, context.CancelCauseFunc), f func(context.Context, *grpc.ClientConn) error) error {
	ctx, err := hostside.Enter(ctx, i.spec.Name)
	if err != nil {
		return err
	}
	if err := i.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer i.slots.Release(1)
	var failed *running
	for {
		r, err := i.process(ctx, failed)
		if err != nil {
			return err
		}
		err = i.callOn(ctx, r, method, watch, f)
		var crash *CrashError
		if !errors.As(err, &crash) || i.info.Kind == sdk.KindAlgorithm {
			return err
		}
		i.logger.Warn("a plugin crashed in a call; the call is repeated", "method", method, "error", err)
		failed = r
	}
}

// process gives the process for a call.
func (i *instance) process(ctx context.Context, failed *running) (*running, error) {
	i.mu.Lock()
	current, closed := i.current, i.closed
	i.mu.Unlock()
	if closed || current == nil {
		return nil, fmt.Errorf("plugin %s is stopped", i.spec.Name)
	}
	if current != failed && current.runner.process.running() {
		return current, nil
	}
	if i.info.Kind == sdk.KindAlgorithm {
		<-current.runner.logged
		return nil, current.crashed(i)
	}
	return i.connect(ctx, current)
}

func (i *instance) callOn(ctx context.Context, r *running, method string, watch func(context.Context, context.CancelCauseFunc), f func(context.Context, *grpc.ClientConn) error) error {
	report := &reported{}
	callCtx, cancel := context.WithCancelCause(context.WithValue(ctx, reportedKey{}, report))
	defer cancel(nil)
	go watch(callCtx, cancel)
	start := time.Now()
	err := f(callCtx, r.conn)
	i.account.called(time.Since(start), report, err)
	if err == nil {
		return nil
	}
	var stuck *StuckError
	switch {
	case errors.As(context.Cause(callCtx), &stuck):
		r.runner.stop()
		<-r.runner.process.exited
		return stuck
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.died(ctx, err):
		return r.crashed(i)
	}
	return fmt.Errorf("plugin %s, %s: %w", i.spec.Name, method, wire.Limit(err, method))
}

// deadline watches an ordinary call.
func (i *instance) deadline(method string) func(context.Context, context.CancelCauseFunc) {
	return func(ctx context.Context, cancel context.CancelCauseFunc) {
		select {
		case <-time.After(i.spec.Timeout):
			cancel(&StuckError{Plugin: i.spec.Name, Method: method, After: i.spec.Timeout, What: "gave no answer"})
		case <-ctx.Done():
		}
	}
}

// close ends the instance for good.
func (i *instance) close() error {
	i.mu.Lock()
	i.closed = true
	current := i.current
	i.mu.Unlock()
	if current == nil {
		return nil
	}
	i.turn <- struct{}{}
	defer func() { <-i.turn }()
	i.mu.Lock()
	current, i.current = i.current, nil
	i.mu.Unlock()
	if current == nil {
		return nil
	}
	return current.end()
}
