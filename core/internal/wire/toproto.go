package wire

import (
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"

	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
)

// convert maps a slice; nil for an empty one.
func convert[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// ToTexts makes each text valid UTF-8.
func ToTexts(texts []string) []string { return convert(texts, validText) }

// ToText makes a text valid UTF-8: a byte that is not part of a character becomes U+FFFD. Policies write such bytes,
// and a message cannot carry them.
func ToText(text string) string { return validText(text) }

// ToDiagnostics converts findings.
func ToDiagnostics(ds diag.Diagnostics) []*pb.Diagnostic {
	return convert(ds, func(d diag.Diagnostic) *pb.Diagnostic {
		severity := pb.Severity_SEVERITY_ERROR
		if d.Severity == diag.Warning {
			severity = pb.Severity_SEVERITY_WARNING
		}
		return &pb.Diagnostic{Severity: severity, Summary: validText(d.Summary), Detail: validText(d.Detail), Path: convert(d.Path, toStep)}
	})
}

func toStep(s diag.Step) *pb.PathStep {
	switch {
	case s.Attr != "":
		return &pb.PathStep{Step: &pb.PathStep_Attribute{Attribute: validText(s.Attr)}}
	case s.Key != "":
		return &pb.PathStep{Step: &pb.PathStep_Key{Key: validText(s.Key)}}
	}
	return &pb.PathStep{Step: &pb.PathStep_Index{Index: int64(s.Index)}}
}

// ToSchema converts a schema. A default that cannot be sent is the author's mistake and an error.
func ToSchema(s schema.Schema) (*pb.Schema, error) {
	out := &pb.Schema{}
	for _, a := range s.Attributes {
		attribute := &pb.Attribute{
			Name: a.Name, Type: string(a.Type), Required: a.Required, Description: validText(a.Description), Enum: ToTexts(a.Enum),
			Min: a.Min, Max: a.Max, Source: validText(a.Source), Sensitive: a.Sensitive,
		}
		if a.Default != nil {
			b, err := EncodeValues(map[string]any{"value": a.Default})
			if err != nil {
				return nil, err
			}
			attribute.DefaultMsgpack = b
		}
		out.Attributes = append(out.Attributes, attribute)
	}
	for _, b := range s.Blocks {
		inner, err := ToSchema(b.Schema)
		if err != nil {
			return nil, err
		}
		out.Blocks = append(out.Blocks, &pb.Block{
			Type: b.Type, Single: b.Single, Labels: int64(b.Labels), Required: b.Required, Schema: inner, Description: validText(b.Description),
		})
	}
	return out, nil
}

// ToQuestion converts a question. Metadata that is not of JSON types is an error.
func ToQuestion(q episode.Question) (*pb.Question, error) {
	metadata, err := EncodeValues(q.Metadata)
	if err != nil {
		return nil, err
	}
	return &pb.Question{
		Id: q.ID, Text: validText(q.Text), Answers: ToTexts(q.Answers), Hops: int64(q.Hops), Type: validText(q.Type), MetadataMsgpack: metadata,
		Gold: convert(q.Gold, func(g episode.Gold) *pb.Gold {
			return &pb.Gold{Title: validText(g.Title), DocumentId: g.DocumentID, ParagraphId: g.ParagraphID}
		}),
	}, nil
}

// ToHit converts a hit.
func ToHit(h episode.Hit) *pb.Hit {
	return &pb.Hit{
		DocumentId: h.DocumentID, ParagraphId: h.ParagraphID, SentenceId: h.SentenceID,
		Title: validText(h.Title), Text: validText(h.Text), Score: h.Score,
	}
}

// ToHits converts hits.
func ToHits(hits []episode.Hit) []*pb.Hit { return convert(hits, ToHit) }

// ToBranch converts a branch; nil stays nil.
func ToBranch(b *episode.Branch) *pb.Branch {
	if b == nil {
		return nil
	}
	return &pb.Branch{EpisodeId: b.EpisodeID, AfterTurn: int64(b.AfterTurn)}
}

func toSpan(s episode.Span) *pb.Span {
	if s == (episode.Span{}) {
		return nil
	}
	return &pb.Span{Start: int64(s.Start), End: int64(s.End)}
}

// ToEpisode converts an episode. Arguments that are not of JSON types are an error.
func ToEpisode(e episode.Episode) (*pb.Episode, error) {
	out := &pb.Episode{
		Id: e.ID, QuestionId: e.QuestionID, Parent: ToBranch(e.Parent),
		Stop: stops.to(e.Stop), Origin: origins.to(e.Origin),
		Sequences: convert(e.Sequences, func(s episode.Sequence) *pb.Sequence {
			return &pb.Sequence{
				Prompt: validText(s.Prompt), PromptLength: int64(s.PromptLength), Length: int64(s.Length),
				Segments: convert(s.Segments, func(g episode.Segment) *pb.Segment {
					return &pb.Segment{Kind: segmentKinds.to(g.Kind), Start: int64(g.Start), End: int64(g.End), Text: validText(g.Text)}
				}),
			}
		}),
		Counters: &pb.Counters{
			Turns: int64(e.Counters.Turns), Searches: int64(e.Counters.Searches), Valid: int64(e.Counters.Valid), Invalid: int64(e.Counters.Invalid),
			PolicyTokens: int64(e.Counters.PolicyTokens), ObservationTokens: int64(e.Counters.ObservationTokens),
		},
		Rewards: &pb.Rewards{Total: e.Rewards.Total, TurnTotals: e.Rewards.TurnTotals},
	}
	if e.Answer != nil {
		answer := validText(*e.Answer)
		out.Answer = &answer
	}
	if len(e.Rewards.Leaves) > 0 {
		out.Rewards.Leaves = make(map[string]*pb.Leaf, len(e.Rewards.Leaves))
		for name, l := range e.Rewards.Leaves {
			out.Rewards.Leaves[name] = &pb.Leaf{Value: l.Value, Components: l.Components, Turns: l.Turns}
		}
	}
	for _, t := range e.Turns {
		arguments, err := EncodeValues(t.Arguments)
		if err != nil {
			return nil, err
		}
		out.Turns = append(out.Turns, &pb.Turn{
			Sequence: int64(t.Sequence), Span: toSpan(t.Span), ActionSpan: toSpan(t.ActionSpan), ObservationSpan: toSpan(t.ObservationSpan),
			Text: validText(t.Text), Thought: validText(t.Thought), Action: actions.to(t.Action), Tool: validText(t.Tool), ArgumentsMsgpack: arguments,
			Hits: ToHits(t.Hits), Observation: validText(t.Observation), Error: validText(t.Error), Executed: t.Executed, LatencySeconds: t.LatencySeconds,
		})
	}
	return out, nil
}

// ToObjective converts an objective.
func ToObjective(o objective.Objective) *pb.Objective {
	out := &pb.Objective{Name: o.Name, Trains: string(o.Trains), Loss: int64(o.Loss)}
	out.Nodes = convert(o.Nodes, func(n objective.Node) *pb.Node {
		return &pb.Node{
			Op: string(n.Op), Inputs: convert(n.Inputs, func(i int) int64 { return int64(i) }), Name: n.Name, Value: n.Value,
			From: pb.Level(n.From), To: pb.Level(n.To), Reduce: string(n.Reduce), Mask: n.Mask,
		}
	})
	if len(o.Metrics) > 0 {
		out.Metrics = make(map[string]int64, len(o.Metrics))
		for name, node := range o.Metrics {
			out.Metrics[name] = int64(node)
		}
	}
	return out
}

// ToKind converts a plugin kind by its name in HCL.
func ToKind[K ~string](k K) pb.Kind { return kinds.to(string(k)) }
