package sdk

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/forage-rl/forage/core/internal/wire"
)

// times adds up where one call spent its time, for the host's account of the transport.
type times struct{ plugin, host atomic.Int64 }

type timesKey struct{}

// inPlugin runs the author's code: it takes the time and turns a panic into an error, its stack on standard error.
func inPlugin(ctx context.Context, f func() error) (err error) {
	start := time.Now()
	defer func() {
		if t, ok := ctx.Value(timesKey{}).(*times); ok {
			t.plugin.Add(int64(time.Since(start)))
		}
	}()
	defer recovered(&err)
	return f()
}

func recovered(err *error) {
	if cause := recover(); cause != nil {
		fmt.Fprintf(os.Stderr, "panic in a plugin: %v\n%s", cause, debug.Stack())
		*err = fmt.Errorf("the plugin %w: %v; its log has the stack", wire.ErrPanic, cause)
	}
}

// trailer tells the host where the time went.
func (t *times) trailer() metadata.MD {
	return metadata.Pairs(
		wire.PluginNanosKey, strconv.FormatInt(t.plugin.Load(), 10),
		wire.HostNanosKey, strconv.FormatInt(t.host.Load(), 10))
}

func interceptUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	t := &times{}
	ctx = context.WithValue(ctx, timesKey{}, t)
	func() {
		defer recovered(&err)
		response, err = handler(ctx, req)
	}()
	// It fails only when there is no stream, and the host does without it.
	_ = grpc.SetTrailer(ctx, t.trailer())
	return response, wire.ToStatus(err)
}

type timedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *timedStream) Context() context.Context { return s.ctx }

func interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	t := &times{}
	func() {
		defer recovered(&err)
		err = handler(srv, &timedStream{ServerStream: stream, ctx: context.WithValue(stream.Context(), timesKey{}, t)})
	}()
	stream.SetTrailer(t.trailer())
	// go-plugin's own streams report their end as io.EOF and the like: leave statuses as they are.
	return wire.ToStatus(err)
}
