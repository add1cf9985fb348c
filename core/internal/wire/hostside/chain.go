package hostside

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/forage-rl/forage/core/internal/wire"
)

// maxChain bounds the instances that one call goes through: an algorithm, a reward it asks for, a retriever of that.
const maxChain = 8

type chainKey struct{}

// chain lists the instances whose calls led here, outermost first.
func chain(ctx context.Context) []string {
	names, _ := ctx.Value(chainKey{}).([]string)
	return names
}

// Enter marks ctx as a call to instance, for the host itself and for the plugin. It refuses a call back to an
// instance that waits for this very call.
func Enter(ctx context.Context, instance string) (context.Context, error) {
	path := append(slices.Clone(chain(ctx)), instance)
	shown := strings.Join(path, " -> ")
	if slices.Contains(path[:len(path)-1], instance) {
		return nil, fmt.Errorf("plugin %s is called by a call that it made itself (%s): a plugin must not depend on itself", instance, shown)
	}
	if len(path) > maxChain {
		return nil, fmt.Errorf("calls between plugins are nested deeper than %d (%s)", maxChain, shown)
	}
	ctx = context.WithValue(ctx, chainKey{}, path)
	for _, name := range path {
		ctx = metadata.AppendToOutgoingContext(ctx, wire.ChainKey, name)
	}
	return ctx, nil
}

// received gives ctx the chain of an incoming call from instance. The plugin's word is taken only for the instances
// before it.
func received(ctx context.Context, instance string) (context.Context, error) {
	var path []string
	if in, ok := metadata.FromIncomingContext(ctx); ok {
		path = in.Get(wire.ChainKey)
	}
	if len(path) > maxChain {
		return nil, fmt.Errorf("calls between plugins are nested deeper than %d", maxChain)
	}
	if i := slices.Index(path, instance); i >= 0 {
		path = path[:i]
	}
	return context.WithValue(ctx, chainKey{}, append(slices.Clone(path), instance)), nil
}
