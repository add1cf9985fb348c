package hostside

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/forage-rl/forage/core/internal/wire"
	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// ServerOptions say for whom host services are and who watches them.
type ServerOptions struct {
	// Instance is the plugin instance that the services are for.
	Instance string
	Logger   *slog.Logger
	// Began and Ended frame each call, on the goroutine that serves it; Ended gets the time inside the host's own
	// code. Both may be nil.
	Began func()
	Ended func(inHost time.Duration)
}

// NewServer makes a server of the host's services. options come from the broker (its encryption).
func NewServer(host sdk.Host, o ServerOptions, options []grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(slices.Concat(options, wire.ServerOptions(), []grpc.ServerOption{grpc.UnaryInterceptor(o.intercept)})...)
	pb.RegisterHostServer(s, &server{host: host})
	return s
}

type inHostKey struct{}

func (o ServerOptions) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	if o.Began != nil {
		o.Began()
	}
	var inHost time.Duration
	defer func() {
		if cause := recover(); cause != nil {
			o.Logger.Error("panic in a host service", "plugin", o.Instance, "method", info.FullMethod, "cause", cause, "stack", string(debug.Stack()))
			response, err = nil, fmt.Errorf("the host %w: %v, in %s", wire.ErrPanic, cause, info.FullMethod)
		}
		err = wire.ToStatus(err)
		if o.Ended != nil {
			o.Ended(inHost)
		}
	}()
	ctx, err = received(ctx, o.Instance)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sdk.ErrInvalidRequest, err)
	}
	return handler(context.WithValue(ctx, inHostKey{}, &inHost), req)
}

// server answers a plugin with the host's services.
type server struct {
	pb.UnimplementedHostServer
	host sdk.Host
}

// inHost runs the host's code and takes its time.
func inHost[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	start := time.Now()
	defer func() {
		if d, ok := ctx.Value(inHostKey{}).(*time.Duration); ok {
			*d += time.Since(start)
		}
	}()
	return f(ctx)
}

func (s *server) Rollout(ctx context.Context, r *pb.RolloutRequest) (*pb.RolloutResponse, error) {
	var in []sdk.RolloutRequest
	for _, item := range r.GetRequests() {
		request := sdk.RolloutRequest{
			RequestID: item.GetRequestId(), QuestionID: item.GetQuestionId(), From: wire.FromBranch(item.GetFrom()), N: int(item.GetN()),
			MaxNewTurns: int(item.GetMaxNewTurns()), Keep: item.GetKeep(), Policy: item.GetPolicy(), Agent: item.GetAgent(),
		}
		if item.GetTools() != nil {
			request.Tools = append([]string{}, item.GetTools().GetNames()...)
		}
		if p := item.GetSampling(); p != nil {
			request.Sampling = &sdk.Sampling{Temperature: p.GetTemperature(), TopP: p.GetTopP(), TopK: int(p.GetTopK()), Greedy: p.GetGreedy()}
		}
		in = append(in, request)
	}
	results, err := inHost(ctx, func(ctx context.Context) ([]sdk.RolloutResponse, error) { return s.host.Rollout(ctx, in) })
	if err != nil {
		return nil, err
	}
	out := &pb.RolloutResponse{}
	for _, result := range results {
		episodes, err := toEpisodes(result.Episodes)
		if err != nil {
			return nil, err
		}
		out.Results = append(out.Results, &pb.RolloutResult{RequestId: result.RequestID, Episodes: episodes})
	}
	return out, nil
}

func (s *server) Rerender(ctx context.Context, r *pb.RerenderRequest) (*pb.RerenderResponse, error) {
	var in []sdk.RerenderRequest
	for _, item := range r.GetRequests() {
		in = append(in, sdk.RerenderRequest{EpisodeID: item.GetEpisodeId(), Turn: int(item.GetTurn()), Agent: item.GetAgent()})
	}
	list, err := inHost(ctx, func(ctx context.Context) ([]episode.Episode, error) { return s.host.Rerender(ctx, in) })
	if err != nil {
		return nil, err
	}
	episodes, err := toEpisodes(list)
	return &pb.RerenderResponse{Episodes: episodes}, err
}

func (s *server) LogProbs(ctx context.Context, r *pb.LogProbsRequest) (*pb.LogProbsResponse, error) {
	list, err := inHost(ctx, func(ctx context.Context) ([]sdk.SequenceValues, error) {
		return s.host.LogProbs(ctx, sdk.LogProbsRequest{
			EpisodeIDs: r.GetEpisodeIds(), Policy: r.GetPolicy(), Reference: r.GetReference(), Temperature: r.GetTemperature(),
		})
	})
	return &pb.LogProbsResponse{Sequences: toSequenceValues(list)}, err
}

func (s *server) Values(ctx context.Context, r *pb.ValuesRequest) (*pb.ValuesResponse, error) {
	list, err := inHost(ctx, func(ctx context.Context) ([]sdk.SequenceValues, error) { return s.host.Values(ctx, r.GetEpisodeIds()) })
	return &pb.ValuesResponse{Sequences: toSequenceValues(list)}, err
}

func toSequenceValues(list []sdk.SequenceValues) []*pb.SequenceValues {
	out := make([]*pb.SequenceValues, len(list))
	for i, v := range list {
		out[i] = &pb.SequenceValues{EpisodeId: v.EpisodeID, Sequence: int64(v.Sequence), Values: v.Values}
	}
	return out
}

func (s *server) Questions(ctx context.Context, r *pb.QuestionsRequest) (*pb.QuestionsResponse, error) {
	list, err := inHost(ctx, func(ctx context.Context) ([]episode.Question, error) { return s.host.Questions(ctx, int(r.GetN())) })
	if err != nil {
		return nil, err
	}
	questions, err := toQuestions(list)
	return &pb.QuestionsResponse{Questions: questions}, err
}

func (s *server) Search(ctx context.Context, r *pb.SearchRequest) (*pb.SearchResponse, error) {
	in := sdk.SearchRequest{Index: r.GetIndex(), Queries: r.GetQueries(), K: int(r.GetK())}
	for _, v := range r.GetVectors() {
		in.Vectors = append(in.Vectors, v.GetValues())
	}
	for _, ids := range r.GetExclude() {
		in.Exclude = append(in.Exclude, ids.GetIds())
	}
	results, err := inHost(ctx, func(ctx context.Context) ([][]episode.Hit, error) { return s.host.Search(ctx, in) })
	if err != nil {
		return nil, err
	}
	out := &pb.SearchResponse{}
	for _, hits := range results {
		out.Results = append(out.Results, &pb.HitList{Hits: wire.ToHits(hits)})
	}
	return out, nil
}

func (s *server) Documents(ctx context.Context, r *pb.DocumentsRequest) (*pb.DocumentsResponse, error) {
	list, err := inHost(ctx, func(ctx context.Context) ([]episode.Hit, error) {
		return s.host.Documents(ctx, r.GetCorpus(), r.GetIds())
	})
	return &pb.DocumentsResponse{Documents: wire.ToHits(list)}, err
}

func (s *server) Encode(ctx context.Context, r *pb.EncodeRequest) (*pb.EncodeResponse, error) {
	vectors, err := inHost(ctx, func(ctx context.Context) ([][]float32, error) { return s.host.Encode(ctx, r.GetIndex(), r.GetTexts()) })
	out := &pb.EncodeResponse{}
	for _, v := range vectors {
		out.Vectors = append(out.Vectors, &pb.Vector{Values: v})
	}
	return out, err
}

func (s *server) Metrics(ctx context.Context, r *pb.MetricsRequest) (*pb.MetricsResponse, error) {
	_, err := inHost(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.host.Metrics(ctx, r.GetValues()) })
	return &pb.MetricsResponse{}, err
}
