package hostside

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/forage-rl/forage/core/internal/wire"
	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// Plugin calls what all kinds answer.
type Plugin struct {
	pack   pb.PackClient
	plugin pb.PluginClient
}

// NewPlugin makes a client on a connection.
func NewPlugin(conn grpc.ClientConnInterface) *Plugin {
	return &Plugin{pack: pb.NewPackClient(conn), plugin: pb.NewPluginClient(conn)}
}

// Name of a plugin in its pack.
type Name struct {
	Kind sdk.Kind
	Name string
}

func (n Name) proto() *pb.PluginName { return &pb.PluginName{Kind: wire.ToKind(n.Kind), Name: n.Name} }

// Listing is what a pack says that it holds.
type Listing struct {
	Pack, Version, SDKVersion string
	Plugins                   []Name
}

// List asks for the contents of the pack.
func (p *Plugin) List(ctx context.Context) (Listing, error) {
	r, err := p.pack.List(ctx, &pb.ListRequest{})
	if err != nil {
		return Listing{}, wire.FromStatus(err)
	}
	out := Listing{Pack: r.GetName(), Version: r.GetVersion(), SDKVersion: r.GetSdkVersion()}
	for _, n := range r.GetPlugins() {
		kind, err := wire.FromKind[sdk.Kind](n.GetKind())
		if err != nil {
			return out, err
		}
		out.Plugins = append(out.Plugins, Name{Kind: kind, Name: n.GetName()})
	}
	return out, nil
}

// Describe asks for a plugin's description and source.
func (p *Plugin) Describe(ctx context.Context, name Name) (description, source string, err error) {
	r, err := p.plugin.Describe(ctx, &pb.DescribeRequest{Plugin: name.proto()})
	return r.GetDescription(), r.GetSource(), wire.FromStatus(err)
}

// Schema asks for a plugin's schema.
func (p *Plugin) Schema(ctx context.Context, name Name) (schema.Schema, error) {
	r, err := p.plugin.Schema(ctx, &pb.SchemaRequest{Plugin: name.proto()})
	if err != nil {
		return schema.Schema{}, wire.FromStatus(err)
	}
	return wire.FromSchema(r.GetSchema())
}

// Validate checks a configuration without making an instance, and tells what the plugin would take from its stage.
func (p *Plugin) Validate(ctx context.Context, name Name, values map[string]any) (diag.Diagnostics, []sdk.Use, error) {
	b, err := wire.EncodeValues(values)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.plugin.Validate(ctx, &pb.ValidateRequest{Plugin: name.proto(), ValuesMsgpack: b})
	var uses []sdk.Use
	for _, use := range r.GetUses() {
		uses = append(uses, sdk.Use(use))
	}
	return wire.FromDiagnostics(r.GetDiagnostics()), uses, wire.FromStatus(err)
}

// Configuration makes an instance.
type Configuration struct {
	Plugin   Name
	Values   map[string]any
	Instance string
	BrokerID uint32 // of the host's services; 0 for none
}

// Configured is the answer to a [Configuration]: without an instance when the diagnostics have errors.
type Configured struct {
	Diagnostics diag.Diagnostics
	Stateful    bool
}

// Configure makes the instance that later calls go to.
func (p *Plugin) Configure(ctx context.Context, c Configuration) (Configured, error) {
	b, err := wire.EncodeValues(c.Values)
	if err != nil {
		return Configured{}, err
	}
	r, err := p.plugin.Configure(ctx, &pb.ConfigureRequest{
		Plugin: c.Plugin.proto(), ValuesMsgpack: b, Instance: c.Instance, HostBrokerId: c.BrokerID,
	})
	if err != nil {
		return Configured{}, wire.FromStatus(err)
	}
	out := Configured{Diagnostics: wire.FromDiagnostics(r.GetDiagnostics())}
	for _, name := range r.GetCapabilities() {
		out.Stateful = out.Stateful || name == wire.CapabilityStateful
	}
	return out, nil
}

// Algorithm calls an algorithm.
type Algorithm struct{ client pb.AlgorithmClient }

// NewAlgorithm makes a client on a connection.
func NewAlgorithm(conn grpc.ClientConnInterface) *Algorithm {
	return &Algorithm{client: pb.NewAlgorithmClient(conn)}
}

// Plan plans a stage.
func (a *Algorithm) Plan(ctx context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	r, err := a.client.Plan(ctx, toPlanRequest(req))
	if err != nil {
		return sdk.PlanResponse{}, wire.FromStatus(err)
	}
	return fromPlanResponse(r), nil
}

// Step runs a step. alive is called for each sign of life; it may be nil.
func (a *Algorithm) Step(ctx context.Context, requestID string, req sdk.StepRequest, alive func()) (sdk.StepResponse, error) {
	in, err := toStepRequest(requestID, req)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	stream, err := a.client.Step(ctx, in)
	if err != nil {
		return sdk.StepResponse{}, wire.FromStatus(err)
	}
	var result *pb.StepResponse
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && result != nil:
			return fromStepResponse(result)
		case errors.Is(err, io.EOF):
			return sdk.StepResponse{}, fmt.Errorf("the step ended without a result")
		case err != nil:
			return sdk.StepResponse{}, wire.FromStatus(err)
		}
		if alive != nil {
			alive()
		}
		if r := event.GetResult(); r != nil {
			result = r
		}
	}
}

// Save asks for the algorithm's state.
func (a *Algorithm) Save(ctx context.Context) ([]byte, error) {
	r, err := a.client.Save(ctx, &pb.SaveRequest{})
	return r.GetState(), wire.FromStatus(err)
}

// Load gives the algorithm its state back.
func (a *Algorithm) Load(ctx context.Context, state []byte) error {
	_, err := a.client.Load(ctx, &pb.LoadRequest{State: state})
	return wire.FromStatus(err)
}

// Reward calls a reward.
type Reward struct{ client pb.RewardClient }

// NewReward makes a client on a connection.
func NewReward(conn grpc.ClientConnInterface) *Reward {
	return &Reward{client: pb.NewRewardClient(conn)}
}

// Score scores a batch.
func (r *Reward) Score(ctx context.Context, requestID string, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	in, err := toScoreRequest(requestID, req)
	if err != nil {
		return sdk.ScoreResponse{}, err
	}
	out, err := r.client.Score(ctx, in)
	if err != nil {
		return sdk.ScoreResponse{}, wire.FromStatus(err)
	}
	if len(out.GetScores()) != len(req.Items) {
		return sdk.ScoreResponse{}, fmt.Errorf("got %d scores for %d episodes", len(out.GetScores()), len(req.Items))
	}
	return fromScoreResponse(out), nil
}

// Retriever calls a retriever.
type Retriever struct{ client pb.RetrieverClient }

// NewRetriever makes a client on a connection.
func NewRetriever(conn grpc.ClientConnInterface) *Retriever {
	return &Retriever{client: pb.NewRetrieverClient(conn)}
}

// Tool asks for the tool's description.
func (r *Retriever) Tool(ctx context.Context) (sdk.Tool, error) {
	out, err := r.client.Tool(ctx, &pb.ToolRequest{})
	if err != nil {
		return sdk.Tool{}, wire.FromStatus(err)
	}
	return fromTool(out), nil
}

// Call answers a batch of calls.
func (r *Retriever) Call(ctx context.Context, requestID string, req sdk.CallRequest) (sdk.CallResponse, error) {
	in, err := toCallRequest(requestID, req)
	if err != nil {
		return sdk.CallResponse{}, err
	}
	out, err := r.client.Call(ctx, in)
	if err != nil {
		return sdk.CallResponse{}, wire.FromStatus(err)
	}
	if len(out.GetResults()) != len(req.Calls) {
		return sdk.CallResponse{}, fmt.Errorf("got %d results for %d calls", len(out.GetResults()), len(req.Calls))
	}
	return fromCallResponse(out), nil
}
