package sdk

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/forage-rl/forage/core/internal/wire"
	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk/diag"
)

// heartbeatEvery is how often a running step tells the host that its process lives.
const heartbeatEvery = time.Second

// server answers the host in a plugin's process: one configured instance at most.
type server struct {
	pb.UnimplementedPackServer
	pb.UnimplementedPluginServer
	pb.UnimplementedAlgorithmServer
	pb.UnimplementedRewardServer
	pb.UnimplementedRetrieverServer

	pack     Pack
	stdio    func() // takes standard streams back after the handshake; may be nil
	dialHost func(id uint32) (*grpc.ClientConn, error)

	mu         sync.Mutex // guards the rest
	configured bool
	algorithm  Algorithm
	reward     Reward
	retriever  Retriever
}

func newServer(pack Pack, stdio func(), dialHost func(id uint32) (*grpc.ClientConn, error)) *server {
	return &server{pack: pack, stdio: stdio, dialHost: dialHost}
}

func (s *server) register(g *grpc.Server) {
	pb.RegisterPackServer(g, s)
	pb.RegisterPluginServer(g, s)
	pb.RegisterAlgorithmServer(g, s)
	pb.RegisterRewardServer(g, s)
	pb.RegisterRetrieverServer(g, s)
}

func (s *server) List(context.Context, *pb.ListRequest) (*pb.ListResponse, error) {
	out := &pb.ListResponse{Name: s.pack.Name, Version: s.pack.Version, SdkVersion: wire.SDKVersion}
	for kind, p := range s.pack.plugins {
		out.Plugins = append(out.Plugins, &pb.PluginName{Kind: wire.ToKind(kind), Name: p.Name})
	}
	return out, nil
}

func (s *server) find(name *pb.PluginName) (Plugin, error) {
	for kind, p := range s.pack.plugins {
		if wire.ToKind(kind) == name.GetKind() && p.Name == name.GetName() {
			return p, nil
		}
	}
	return Plugin{}, fmt.Errorf("pack %s %s has no %s %q: %w", s.pack.Name, s.pack.Version, name.GetKind(), name.GetName(), ErrInvalidRequest)
}

func (s *server) Describe(_ context.Context, req *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	p, err := s.find(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	return &pb.DescribeResponse{Description: wire.ToText(p.Description), Source: wire.ToText(p.Source)}, nil
}

func (s *server) Schema(_ context.Context, req *pb.SchemaRequest) (*pb.SchemaResponse, error) {
	p, err := s.find(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	out, err := wire.ToSchema(p.Schema)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", p.Name, err)
	}
	return &pb.SchemaResponse{Schema: out}, nil
}

func (s *server) Validate(_ context.Context, req *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	p, err := s.find(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	values, err := decodeConfig(req.GetValuesMsgpack())
	if err != nil {
		return nil, err
	}
	out := &pb.ValidateResponse{Diagnostics: wire.ToDiagnostics(p.validate(values))}
	if p.Uses != nil {
		for _, use := range p.Uses(values) {
			out.Uses = append(out.Uses, string(use))
		}
	}
	return out, nil
}

func (p Plugin) validate(values map[string]any) diag.Diagnostics {
	if p.Validate == nil {
		return nil
	}
	return p.Validate(values)
}

func decodeConfig(b []byte) (map[string]any, error) {
	values, err := wire.DecodeValues(b)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w: %w", ErrInvalidRequest, err)
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

func (s *server) Configure(ctx context.Context, req *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if s.stdio != nil {
		s.stdio()
	}
	p, err := s.find(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	values, err := decodeConfig(req.GetValuesMsgpack())
	if err != nil {
		return nil, err
	}
	ds := p.validate(values)
	if ds.HasErrors() {
		return &pb.ConfigureResponse{Diagnostics: wire.ToDiagnostics(ds)}, nil
	}
	s.mu.Lock()
	if s.configured {
		s.mu.Unlock()
		return nil, fmt.Errorf("this process is configured already: %w", ErrInvalidRequest)
	}
	s.configured = true
	s.mu.Unlock()
	var host Host = noHost{}
	if id := req.GetHostBrokerId(); id != 0 {
		conn, err := s.dialHost(id)
		if err != nil {
			return nil, fmt.Errorf("connect to the host's services: %w", err)
		}
		host = &hostClient{client: pb.NewHostClient(conn)}
	}
	capabilities, err := s.make(ctx, req.GetPlugin(), values, host)
	if err != nil {
		return nil, err
	}
	return &pb.ConfigureResponse{Diagnostics: wire.ToDiagnostics(ds), Capabilities: capabilities}, nil
}

// make constructs the instance.
func (s *server) make(ctx context.Context, name *pb.PluginName, values map[string]any, host Host) (capabilities []string, err error) {
	var algorithm Algorithm
	var reward Reward
	var retriever Retriever
	err = inPlugin(ctx, func() (err error) {
		switch name.GetKind() {
		case pb.Kind_KIND_ALGORITHM:
			for _, p := range s.pack.Algorithms {
				if p.Name == name.GetName() {
					algorithm, err = p.New(ctx, values, host)
				}
			}
		case pb.Kind_KIND_REWARD:
			for _, p := range s.pack.Rewards {
				if p.Name == name.GetName() {
					reward, err = p.New(ctx, values, host)
				}
			}
		case pb.Kind_KIND_RETRIEVER:
			for _, p := range s.pack.Retrievers {
				if p.Name == name.GetName() {
					retriever, err = p.New(ctx, values, host)
				}
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.algorithm, s.reward, s.retriever = algorithm, reward, retriever
	if _, ok := algorithm.(Stateful); ok {
		capabilities = append(capabilities, wire.CapabilityStateful)
	}
	return capabilities, nil
}

// instance reads one of the server's instances.
func instance[T comparable](s *server, field *T, kind Kind) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none T
	if *field == none {
		return none, fmt.Errorf("no %s is configured in this process: %w", kind, ErrInvalidRequest)
	}
	return *field, nil
}

func (s *server) Plan(ctx context.Context, req *pb.PlanRequest) (*pb.PlanResponse, error) {
	a, err := instance(s, &s.algorithm, KindAlgorithm)
	if err != nil {
		return nil, err
	}
	var out PlanResponse
	err = inPlugin(ctx, func() (err error) {
		out, err = a.Plan(ctx, fromPlanRequest(req))
		return err
	})
	if err != nil {
		return nil, err
	}
	return toPlanResponse(out), nil
}

func (s *server) Step(req *pb.StepRequest, stream grpc.ServerStreamingServer[pb.StepEvent]) error {
	ctx := stream.Context()
	a, err := instance(s, &s.algorithm, KindAlgorithm)
	if err != nil {
		return err
	}
	in, err := fromStepRequest(req)
	if err != nil {
		return err
	}
	type outcome struct {
		response StepResponse
		err      error
	}
	done := make(chan outcome, 1)
	go func() {
		var out outcome
		out.err = inPlugin(ctx, func() (err error) {
			out.response, err = a.Step(ctx, in)
			return err
		})
		done <- out
	}()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			// A failed send means that the host is gone or has given up: ctx tells the plugin.
			_ = stream.Send(&pb.StepEvent{Event: &pb.StepEvent_Heartbeat{Heartbeat: &pb.Heartbeat{}}})
		case out := <-done:
			if out.err != nil {
				return out.err
			}
			response, err := toStepResponse(out.response)
			if err != nil {
				return err
			}
			return stream.Send(&pb.StepEvent{Event: &pb.StepEvent_Result{Result: response}})
		}
	}
}

func (s *server) stateful() (Stateful, error) {
	a, err := instance(s, &s.algorithm, KindAlgorithm)
	if err != nil {
		return nil, err
	}
	st, ok := a.(Stateful)
	if !ok {
		return nil, fmt.Errorf("this algorithm keeps no state: %w", ErrNotSupported)
	}
	return st, nil
}

func (s *server) Save(ctx context.Context, _ *pb.SaveRequest) (*pb.SaveResponse, error) {
	st, err := s.stateful()
	if err != nil {
		return nil, err
	}
	var state []byte
	err = inPlugin(ctx, func() (err error) {
		state, err = st.Save(ctx)
		return err
	})
	return &pb.SaveResponse{State: state}, err
}

func (s *server) Load(ctx context.Context, req *pb.LoadRequest) (*pb.LoadResponse, error) {
	st, err := s.stateful()
	if err != nil {
		return nil, err
	}
	return &pb.LoadResponse{}, inPlugin(ctx, func() error { return st.Load(ctx, req.GetState()) })
}

func (s *server) Score(ctx context.Context, req *pb.ScoreRequest) (*pb.ScoreResponse, error) {
	r, err := instance(s, &s.reward, KindReward)
	if err != nil {
		return nil, err
	}
	in, err := fromScoreRequest(req)
	if err != nil {
		return nil, err
	}
	var out ScoreResponse
	err = inPlugin(ctx, func() (err error) {
		out, err = r.Score(ctx, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(out.Scores) != len(in.Items) {
		return nil, fmt.Errorf("the reward gave %d scores for %d episodes", len(out.Scores), len(in.Items))
	}
	return toScoreResponse(out), nil
}

func (s *server) Tool(ctx context.Context, _ *pb.ToolRequest) (*pb.ToolResponse, error) {
	r, err := instance(s, &s.retriever, KindRetriever)
	if err != nil {
		return nil, err
	}
	var out Tool
	err = inPlugin(ctx, func() (err error) {
		out, err = r.Tool(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toTool(out), nil
}

func (s *server) Call(ctx context.Context, req *pb.CallRequest) (*pb.CallResponse, error) {
	r, err := instance(s, &s.retriever, KindRetriever)
	if err != nil {
		return nil, err
	}
	in, err := fromCallRequest(req)
	if err != nil {
		return nil, err
	}
	var out CallResponse
	err = inPlugin(ctx, func() (err error) {
		out, err = r.Call(ctx, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(out.Results) != len(in.Calls) {
		return nil, fmt.Errorf("the retriever gave %d results for %d calls", len(out.Results), len(in.Calls))
	}
	return toCallResponse(out), nil
}
