package sdktest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/forage-rl/forage/core/internal/wire"
	"github.com/forage-rl/forage/core/internal/wire/hostside"
	"github.com/forage-rl/forage/core/sdk"
)

// hostID stands for the broker id of the host's services; any but 0 will do.
const hostID = 1

// Algorithm serves the plugin with a configuration and a host, until the test ends. A configuration that it refuses
// fails the test.
func Algorithm(t testing.TB, plugin sdk.AlgorithmPlugin, values map[string]any, host sdk.Host) *AlgorithmClient {
	t.Helper()
	conn, configured := serve(t, sdk.Pack{Algorithms: []sdk.AlgorithmPlugin{plugin}}, hostside.Name{Kind: sdk.KindAlgorithm, Name: plugin.Name}, values, host)
	return &AlgorithmClient{client: hostside.NewAlgorithm(conn), stateful: configured.Stateful, host: host}
}

// AlgorithmClient calls a served algorithm.
type AlgorithmClient struct {
	client   *hostside.Algorithm
	stateful bool
	host     sdk.Host
}

var (
	_ sdk.Algorithm = (*AlgorithmClient)(nil)
	_ sdk.Stateful  = (*AlgorithmClient)(nil)
)

// Stateful says whether the algorithm implements [sdk.Stateful].
func (a *AlgorithmClient) Stateful() bool { return a.stateful }

// Plan implements [sdk.Algorithm].
func (a *AlgorithmClient) Plan(ctx context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	out, err := a.client.Plan(ctx, req)
	return out, wire.Limit(err, "Plan")
}

// Step implements [sdk.Algorithm].
func (a *AlgorithmClient) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	if h, ok := a.host.(interface{ nextStep() }); ok {
		h.nextStep()
	}
	out, err := a.client.Step(ctx, rand.Text(), req, nil)
	return out, wire.Limit(err, "Step")
}

// Save implements [sdk.Stateful].
func (a *AlgorithmClient) Save(ctx context.Context) ([]byte, error) {
	out, err := a.client.Save(ctx)
	return out, wire.Limit(err, "Save")
}

// Load implements [sdk.Stateful].
func (a *AlgorithmClient) Load(ctx context.Context, state []byte) error {
	return wire.Limit(a.client.Load(ctx, state), "Load")
}

// Reward serves the plugin with a configuration and a host (nil for none), until the test ends.
func Reward(t testing.TB, plugin sdk.RewardPlugin, values map[string]any, host sdk.Host) sdk.Reward {
	t.Helper()
	conn, _ := serve(t, sdk.Pack{Rewards: []sdk.RewardPlugin{plugin}}, hostside.Name{Kind: sdk.KindReward, Name: plugin.Name}, values, host)
	return rewardClient{hostside.NewReward(conn)}
}

type rewardClient struct{ client *hostside.Reward }

func (r rewardClient) Score(ctx context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	out, err := r.client.Score(ctx, rand.Text(), req)
	return out, wire.Limit(err, "Score")
}

// Retriever serves the plugin with a configuration and a host (nil for none), until the test ends.
func Retriever(t testing.TB, plugin sdk.RetrieverPlugin, values map[string]any, host sdk.Host) sdk.Retriever {
	t.Helper()
	conn, _ := serve(t, sdk.Pack{Retrievers: []sdk.RetrieverPlugin{plugin}}, hostside.Name{Kind: sdk.KindRetriever, Name: plugin.Name}, values, host)
	return retrieverClient{hostside.NewRetriever(conn)}
}

type retrieverClient struct{ client *hostside.Retriever }

func (r retrieverClient) Tool(ctx context.Context) (sdk.Tool, error) {
	out, err := r.client.Tool(ctx)
	return out, wire.Limit(err, "Tool")
}

func (r retrieverClient) Call(ctx context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	out, err := r.client.Call(ctx, rand.Text(), req)
	return out, wire.Limit(err, "Call")
}

// serve serves a pack of one plugin and configures it.
func serve(t testing.TB, pack sdk.Pack, name hostside.Name, values map[string]any, host sdk.Host) (*grpc.ClientConn, hostside.Configured) {
	t.Helper()
	conn := connect(t, pack, host)
	var id uint32
	if host != nil {
		id = hostID
	}
	configured, err := hostside.NewPlugin(conn).Configure(t.Context(), hostside.Configuration{
		Plugin: name, Values: values, Instance: "test", BrokerID: id,
	})
	if err == nil {
		err = configured.Diagnostics.Err()
	}
	if err != nil {
		t.Fatalf("configure %s %q with %v: %v", name.Kind, name.Name, values, err)
	}
	return conn, configured
}

// connect serves a pack in memory.
func connect(t testing.TB, pack sdk.Pack, host sdk.Host) *grpc.ClientConn {
	t.Helper()
	pack.Name, pack.Version = "forage-test", "0.0.0"
	ctx, stop := context.WithCancel(context.Background())
	const buffer = 1 << 20
	listener := bufconn.Listen(buffer)
	var dialHost func(context.Context) (net.Conn, error)
	stopHost := func() {}
	if host != nil {
		services := bufconn.Listen(buffer)
		server := hostside.NewServer(host, hostside.ServerOptions{Instance: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, nil)
		go func() {
			// It ends with an error when the test does.
			_ = server.Serve(services)
		}()
		dialHost, stopHost = services.DialContext, server.Stop
	}
	served := make(chan error, 1)
	go func() { served <- sdk.ServeListener(ctx, pack, listener, dialHost) }()
	conn, err := grpc.NewClient("passthrough:plugin", append(wire.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stopHost()
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve the plugin: %v", err)
		}
	})
	return conn
}
