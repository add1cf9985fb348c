package host

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/forage-rl/forage/core/internal/wire/hostside"
	"github.com/forage-rl/forage/core/sdk"
)

// AlgorithmClient is an algorithm in its process.
type AlgorithmClient struct{ instance *instance }

var (
	_ sdk.Algorithm = (*AlgorithmClient)(nil)
	_ sdk.Stateful  = (*AlgorithmClient)(nil)
	_ sdk.Reward    = (*RewardClient)(nil)
	_ sdk.Retriever = (*RetrieverClient)(nil)
)

// Info says which plugin it is.
func (a *AlgorithmClient) Info() PluginInfo { return a.instance.info }

// Stateful says whether the algorithm has state to save. Without it Save gives nothing and Load refuses.
func (a *AlgorithmClient) Stateful() bool {
	a.instance.mu.Lock()
	defer a.instance.mu.Unlock()
	return a.instance.stateful
}

// Plan implements [sdk.Algorithm].
func (a *AlgorithmClient) Plan(ctx context.Context, req sdk.PlanRequest) (out sdk.PlanResponse, err error) {
	err = a.instance.call(ctx, "Plan", a.instance.deadline("Plan"), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		out, err = hostside.NewAlgorithm(conn).Plan(ctx, req)
		return err
	})
	return out, err
}

// Step implements [sdk.Algorithm]. It takes as long as it takes, as long as the process gives signs of life and the
// plugin's own code comes back to the host within the timeout.
func (a *AlgorithmClient) Step(ctx context.Context, req sdk.StepRequest) (out sdk.StepResponse, err error) {
	i := a.instance
	id := rand.Text()
	var alive atomic.Int64
	now := func() { alive.Store(time.Now().UnixNano()) }
	watch := func(ctx context.Context, cancel context.CancelCauseFunc) {
		now()
		i.hostActivity.Store(time.Now().UnixNano())
		ticker := time.NewTicker(max(time.Millisecond, min(i.spec.StuckAfter, i.spec.Timeout)/8))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case t := <-ticker.C:
				if stuck := i.stepStuck(t.UnixNano(), alive.Load(), i.hostActivity.Load(), i.hostCalls.Load()); stuck != nil {
					cancel(stuck)
				}
			}
		}
	}
	err = i.call(ctx, "Step", watch, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		out, err = hostside.NewAlgorithm(conn).Step(ctx, id, req, now)
		return err
	})
	return out, err
}

// stepStuck judges a step: when its process last gave a sign of life, when a call to the host last began or ended,
// and how many are being served. Times are in nanoseconds.
func (i *instance) stepStuck(now, alive, hostActivity, hostCalls int64) error {
	switch {
	case now-alive > int64(i.spec.StuckAfter):
		return &StuckError{Plugin: i.spec.Name, Method: "Step", After: i.spec.StuckAfter, What: "gave no sign of life"}
	case hostCalls == 0 && now-hostActivity > int64(i.spec.Timeout):
		return &StuckError{Plugin: i.spec.Name, Method: "Step", After: i.spec.Timeout, What: "neither ended nor called the host"}
	}
	return nil
}

// Save implements [sdk.Stateful]; an algorithm without state gives nil.
func (a *AlgorithmClient) Save(ctx context.Context) (state []byte, err error) {
	if !a.Stateful() {
		return nil, nil
	}
	err = a.instance.call(ctx, "Save", a.instance.deadline("Save"), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		state, err = hostside.NewAlgorithm(conn).Save(ctx)
		return err
	})
	return state, err
}

// Load implements [sdk.Stateful]; nil is the state of an algorithm without any.
func (a *AlgorithmClient) Load(ctx context.Context, state []byte) error {
	if !a.Stateful() {
		if len(state) > 0 {
			return fmt.Errorf("plugin %s keeps no state, but the checkpoint has some: it is of another version of the plugin: %w", a.instance.spec.Name, sdk.ErrNotSupported)
		}
		return nil
	}
	return a.instance.call(ctx, "Load", a.instance.deadline("Load"), func(ctx context.Context, conn *grpc.ClientConn) error {
		return hostside.NewAlgorithm(conn).Load(ctx, state)
	})
}

// Restart replaces the process, crashed or not, by a fresh one with the given state: the one of the checkpoint that
// the run goes back to. It counts against the restart budget.
func (a *AlgorithmClient) Restart(ctx context.Context, state []byte) error {
	i := a.instance
	i.mu.Lock()
	current := i.current
	i.mu.Unlock()
	if current == nil {
		return fmt.Errorf("plugin %s is stopped", i.spec.Name)
	}
	current.runner.stop()
	<-current.runner.process.exited
	<-current.runner.logged
	if _, err := i.connect(ctx, current); err != nil {
		return err
	}
	return a.Load(ctx, state)
}

// Close ends the process.
func (a *AlgorithmClient) Close() error { return a.instance.supervisor.remove(a.instance) }

// RewardClient is a reward in its process.
type RewardClient struct{ instance *instance }

// Info says which plugin it is.
func (r *RewardClient) Info() PluginInfo { return r.instance.info }

// Score implements [sdk.Reward].
func (r *RewardClient) Score(ctx context.Context, req sdk.ScoreRequest) (out sdk.ScoreResponse, err error) {
	id := rand.Text()
	err = r.instance.call(ctx, "Score", r.instance.deadline("Score"), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		out, err = hostside.NewReward(conn).Score(ctx, id, req)
		return err
	})
	return out, err
}

// Close ends the process.
func (r *RewardClient) Close() error { return r.instance.supervisor.remove(r.instance) }

// RetrieverClient is a retriever in its process.
type RetrieverClient struct{ instance *instance }

// Info says which plugin it is.
func (r *RetrieverClient) Info() PluginInfo { return r.instance.info }

// Tool implements [sdk.Retriever].
func (r *RetrieverClient) Tool(ctx context.Context) (out sdk.Tool, err error) {
	err = r.instance.call(ctx, "Tool", r.instance.deadline("Tool"), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		out, err = hostside.NewRetriever(conn).Tool(ctx)
		return err
	})
	return out, err
}

// Call implements [sdk.Retriever].
func (r *RetrieverClient) Call(ctx context.Context, req sdk.CallRequest) (out sdk.CallResponse, err error) {
	id := rand.Text()
	err = r.instance.call(ctx, "Call", r.instance.deadline("Call"), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		out, err = hostside.NewRetriever(conn).Call(ctx, id, req)
		return err
	})
	return out, err
}

// Close ends the process.
func (r *RetrieverClient) Close() error { return r.instance.supervisor.remove(r.instance) }
