package host

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"github.com/forage-rl/forage/core/internal/wire"
	"github.com/forage-rl/forage/core/sdk"
)

// Stats accounts for one instance's calls since its first start. Times are sums over calls, so concurrent ones count
// twice against the clock.
type Stats struct {
	Instance string
	Kind     sdk.Kind
	Label    string

	Calls     int64
	Failures  int64
	Restarts  int64
	HostCalls int64 // calls of the plugin to the host

	BytesSent     int64 // to the plugin: requests, and answers to its own calls
	BytesReceived int64

	// Wall is the time that callers waited, conversions included: InPlugin + InHost + Transport.
	Wall time.Duration
	// InPlugin is the time in the plugin's own code, and InHost that in host services which it called meanwhile.
	InPlugin time.Duration
	InHost   time.Duration
	// Transport is the rest: conversion, serialisation, sockets and scheduling, in both directions.
	Transport time.Duration
	// Unmeasured counts calls whose plugin reported no times: all of their wall time is in InPlugin.
	Unmeasured int64
}

// account collects the stats of one instance.
type account struct {
	mu    sync.Mutex
	stats Stats

	sent, received atomic.Int64
}

func (a *account) snapshot() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.BytesSent, s.BytesReceived = a.sent.Load(), a.received.Load()
	return s
}

// reported is what the plugin says about one call.
type reported struct {
	mu           sync.Mutex
	measured     bool
	plugin, host time.Duration
}

type reportedKey struct{}

func (r *reported) read(trailer metadata.MD) {
	nanos := func(key string) (time.Duration, bool) {
		values := trailer.Get(key)
		if len(values) != 1 {
			return 0, false
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		return time.Duration(n), err == nil && n >= 0
	}
	plugin, ok := nanos(wire.PluginNanosKey)
	host, okHost := nanos(wire.HostNanosKey)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok && okHost {
		r.measured, r.plugin, r.host = true, plugin, host
	}
}

// called books a call. InHost is booked by the host's services as it happens; the time that the plugin waited for
// them beyond that was spent in transport.
func (a *account) called(wall time.Duration, r *reported, err error) {
	r.mu.Lock()
	measured, plugin, host := r.measured, r.plugin, r.host
	r.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Calls++
	if err != nil {
		a.stats.Failures++
	}
	a.stats.Wall += wall
	if !measured {
		a.stats.Unmeasured++
		a.stats.InPlugin += wall
		return
	}
	a.stats.InPlugin += plugin - host
	a.stats.Transport += wall - plugin + host
}

// servedHost books the host's own time in a call of the plugin.
func (a *account) servedHost(inHost time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.HostCalls++
	a.stats.InHost += inHost
	a.stats.Transport -= inHost
}

func readTrailerUnary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	r, ok := ctx.Value(reportedKey{}).(*reported)
	if !ok {
		return invoke(ctx, method, req, reply, conn, options...)
	}
	var trailer metadata.MD
	err := invoke(ctx, method, req, reply, conn, append(options, grpc.Trailer(&trailer))...)
	r.read(trailer)
	return err
}

func readTrailerStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, conn, method, options...)
	r, ok := ctx.Value(reportedKey{}).(*reported)
	if err != nil || !ok {
		return stream, err
	}
	return &trailerStream{ClientStream: stream, report: r}, nil
}

type trailerStream struct {
	grpc.ClientStream
	report *reported
}

func (s *trailerStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.report.read(s.Trailer())
	}
	return err
}

// byteCounter counts payloads of a connection or a server, seen from the host.
type byteCounter struct{ account *account }

var _ stats.Handler = byteCounter{}

func (byteCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (byteCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (byteCounter) HandleConn(context.Context, stats.ConnStats)                       {}

func (b byteCounter) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InPayload:
		b.account.received.Add(int64(s.WireLength))
	case *stats.OutPayload:
		b.account.sent.Add(int64(s.WireLength))
	}
}
