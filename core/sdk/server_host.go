package sdk

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/forage-rl/forage/core/internal/wire"
	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// hostClient calls the host's services from a plugin's process.
type hostClient struct{ client pb.HostClient }

var _ Host = (*hostClient)(nil)

// callHost makes one call with the chain of instances that led to it, and books its time to the call it serves.
func callHost[A, B any](ctx context.Context, f func(context.Context, A) (B, error), request A) (B, error) {
	start := time.Now()
	if t, ok := ctx.Value(timesKey{}).(*times); ok {
		defer func() { t.host.Add(int64(time.Since(start))) }()
	}
	if in, ok := metadata.FromIncomingContext(ctx); ok {
		for _, name := range in.Get(wire.ChainKey) {
			ctx = metadata.AppendToOutgoingContext(ctx, wire.ChainKey, name)
		}
	}
	response, err := f(ctx, request)
	return response, wire.Limit(wire.FromStatus(err), "call to the host")
}

func (h *hostClient) Rollout(ctx context.Context, requests []RolloutRequest) ([]RolloutResponse, error) {
	in := &pb.RolloutRequest{}
	for _, r := range requests {
		item := &pb.RolloutItem{
			RequestId: r.RequestID, QuestionId: r.QuestionID, From: wire.ToBranch(r.From), N: int64(r.N), MaxNewTurns: int64(r.MaxNewTurns), Keep: r.Keep,
			Policy: r.Policy, Agent: r.Agent,
		}
		if r.Tools != nil {
			item.Tools = &pb.ToolList{Names: r.Tools}
		}
		if s := r.Sampling; s != nil {
			item.Sampling = &pb.Sampling{Temperature: s.Temperature, TopP: s.TopP, TopK: int64(s.TopK), Greedy: s.Greedy}
		}
		in.Requests = append(in.Requests, item)
	}
	return callHost(ctx, func(ctx context.Context, in *pb.RolloutRequest) ([]RolloutResponse, error) {
		response, err := h.client.Rollout(ctx, in)
		if err != nil {
			return nil, err
		}
		var out []RolloutResponse
		for _, r := range response.GetResults() {
			result := RolloutResponse{RequestID: r.GetRequestId()}
			if result.Episodes, err = fromEpisodes(r.GetEpisodes()); err != nil {
				return nil, err
			}
			out = append(out, result)
		}
		return out, nil
	}, in)
}

func fromEpisodes(list []*pb.Episode) ([]episode.Episode, error) {
	out := make([]episode.Episode, len(list))
	for i, e := range list {
		var err error
		if out[i], err = wire.FromEpisode(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (h *hostClient) Rerender(ctx context.Context, requests []RerenderRequest) ([]episode.Episode, error) {
	in := &pb.RerenderRequest{}
	for _, r := range requests {
		in.Requests = append(in.Requests, &pb.RerenderItem{EpisodeId: r.EpisodeID, Turn: int64(r.Turn), Agent: r.Agent})
	}
	return callHost(ctx, func(ctx context.Context, in *pb.RerenderRequest) ([]episode.Episode, error) {
		response, err := h.client.Rerender(ctx, in)
		if err != nil {
			return nil, err
		}
		return fromEpisodes(response.GetEpisodes())
	}, in)
}

func (h *hostClient) LogProbs(ctx context.Context, req LogProbsRequest) ([]SequenceValues, error) {
	in := &pb.LogProbsRequest{EpisodeIds: req.EpisodeIDs, Policy: req.Policy, Reference: req.Reference, Temperature: req.Temperature}
	return callHost(ctx, func(ctx context.Context, in *pb.LogProbsRequest) ([]SequenceValues, error) {
		response, err := h.client.LogProbs(ctx, in)
		return fromSequenceValues(response.GetSequences()), err
	}, in)
}

func (h *hostClient) Values(ctx context.Context, episodeIDs []string) ([]SequenceValues, error) {
	return callHost(ctx, func(ctx context.Context, in *pb.ValuesRequest) ([]SequenceValues, error) {
		response, err := h.client.Values(ctx, in)
		return fromSequenceValues(response.GetSequences()), err
	}, &pb.ValuesRequest{EpisodeIds: episodeIDs})
}

func fromSequenceValues(list []*pb.SequenceValues) []SequenceValues {
	var out []SequenceValues
	for _, s := range list {
		out = append(out, SequenceValues{EpisodeID: s.GetEpisodeId(), Sequence: int(s.GetSequence()), Values: s.GetValues()})
	}
	return out
}

func (h *hostClient) Questions(ctx context.Context, n int) ([]episode.Question, error) {
	return callHost(ctx, func(ctx context.Context, in *pb.QuestionsRequest) ([]episode.Question, error) {
		response, err := h.client.Questions(ctx, in)
		if err != nil {
			return nil, err
		}
		var out []episode.Question
		for _, q := range response.GetQuestions() {
			question, err := wire.FromQuestion(q)
			if err != nil {
				return nil, err
			}
			out = append(out, question)
		}
		return out, nil
	}, &pb.QuestionsRequest{N: int64(n)})
}

func (h *hostClient) Search(ctx context.Context, req SearchRequest) ([][]episode.Hit, error) {
	in := &pb.SearchRequest{Index: req.Index, Queries: wire.ToTexts(req.Queries), K: int64(req.K)}
	for _, v := range req.Vectors {
		in.Vectors = append(in.Vectors, &pb.Vector{Values: v})
	}
	for _, ids := range req.Exclude {
		in.Exclude = append(in.Exclude, &pb.IdList{Ids: ids})
	}
	return callHost(ctx, func(ctx context.Context, in *pb.SearchRequest) ([][]episode.Hit, error) {
		response, err := h.client.Search(ctx, in)
		if err != nil {
			return nil, err
		}
		var out [][]episode.Hit
		for _, r := range response.GetResults() {
			out = append(out, wire.FromHits(r.GetHits()))
		}
		return out, nil
	}, in)
}

func (h *hostClient) Documents(ctx context.Context, corpus string, ids []string) ([]episode.Hit, error) {
	return callHost(ctx, func(ctx context.Context, in *pb.DocumentsRequest) ([]episode.Hit, error) {
		response, err := h.client.Documents(ctx, in)
		return wire.FromHits(response.GetDocuments()), err
	}, &pb.DocumentsRequest{Corpus: corpus, Ids: ids})
}

func (h *hostClient) Encode(ctx context.Context, index string, texts []string) ([][]float32, error) {
	return callHost(ctx, func(ctx context.Context, in *pb.EncodeRequest) ([][]float32, error) {
		response, err := h.client.Encode(ctx, in)
		if err != nil {
			return nil, err
		}
		var out [][]float32
		for _, v := range response.GetVectors() {
			out = append(out, v.GetValues())
		}
		return out, nil
	}, &pb.EncodeRequest{Index: index, Texts: wire.ToTexts(texts)})
}

func (h *hostClient) Metrics(ctx context.Context, values map[string]float64) error {
	_, err := callHost(ctx, func(ctx context.Context, in *pb.MetricsRequest) (*pb.MetricsResponse, error) {
		return h.client.Metrics(ctx, in)
	}, &pb.MetricsRequest{Values: values})
	return err
}

// noHost is the host of an instance that was configured without one.
type noHost struct{}

var _ Host = noHost{}

func unavailable() error {
	return fmt.Errorf("this plugin was started without the host's services: %w", ErrNotSupported)
}

func (noHost) Rollout(context.Context, []RolloutRequest) ([]RolloutResponse, error) {
	return nil, unavailable()
}
func (noHost) Rerender(context.Context, []RerenderRequest) ([]episode.Episode, error) {
	return nil, unavailable()
}
func (noHost) LogProbs(context.Context, LogProbsRequest) ([]SequenceValues, error) {
	return nil, unavailable()
}
func (noHost) Values(context.Context, []string) ([]SequenceValues, error) { return nil, unavailable() }
func (noHost) Questions(context.Context, int) ([]episode.Question, error) { return nil, unavailable() }
func (noHost) Search(context.Context, SearchRequest) ([][]episode.Hit, error) {
	return nil, unavailable()
}
func (noHost) Documents(context.Context, string, []string) ([]episode.Hit, error) {
	return nil, unavailable()
}
func (noHost) Encode(context.Context, string, []string) ([][]float32, error) {
	return nil, unavailable()
}
func (noHost) Metrics(context.Context, map[string]float64) error { return unavailable() }
