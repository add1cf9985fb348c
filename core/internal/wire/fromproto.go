package wire

import (
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"

	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
)

// names maps an enumeration of a message to the SDK's: the index is the number on the wire.
type names[N ~int32, S ~string] []S

func (n names[N, S]) to(s S) N {
	return N(max(0, slices.Index(n, s)))
}

func (n names[N, S]) from(what string, number N) (S, error) {
	if number < 0 || int(number) >= len(n) {
		return "", fmt.Errorf("unknown %s %d: the other side is of a newer version", what, number)
	}
	return n[number], nil
}

var (
	stops = names[pb.Stop, episode.Stop]{
		"", episode.StopAnswered, episode.StopBudget, episode.StopLength, episode.StopInvalid,
	}
	kinds        = names[pb.Kind, string]{"", "algorithm", "reward", "retriever"}
	origins      = names[pb.Origin, episode.Origin]{"", episode.OriginPolicy, episode.OriginExpert, episode.OriginRerendered}
	segmentKinds = names[pb.SegmentKind, episode.SegmentKind]{"", episode.Policy, episode.Observation, episode.Notice}
	actions      = names[pb.Action, episode.Action]{
		"", episode.ActionCall, episode.ActionAnswer, episode.ActionInvalid, episode.ActionNone,
	}
)

// convertOrFail maps a slice and stops at the first error.
func convertOrFail[A, B any](list []A, f func(A) (B, error)) ([]B, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		var err error
		if out[i], err = f(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// FromDiagnostics converts findings. An unknown severity counts as an error.
func FromDiagnostics(ds []*pb.Diagnostic) diag.Diagnostics {
	return convert(ds, func(d *pb.Diagnostic) diag.Diagnostic {
		severity := diag.Error
		if d.GetSeverity() == pb.Severity_SEVERITY_WARNING {
			severity = diag.Warning
		}
		return diag.Diagnostic{Severity: severity, Summary: d.GetSummary(), Detail: d.GetDetail(), Path: convert(d.GetPath(), func(s *pb.PathStep) diag.Step {
			return diag.Step{Attr: s.GetAttribute(), Key: s.GetKey(), Index: int(s.GetIndex())}
		})}
	})
}

// FromSchema converts a schema.
func FromSchema(s *pb.Schema) (schema.Schema, error) { return fromSchema(s, 0) }

func fromSchema(s *pb.Schema, depth int) (schema.Schema, error) {
	var out schema.Schema
	if depth > maxDepth {
		return out, fmt.Errorf("blocks are nested deeper than %d", maxDepth)
	}
	for _, a := range s.GetAttributes() {
		attribute := schema.Attribute{
			Name: a.GetName(), Type: schema.Type(a.GetType()), Required: a.GetRequired(), Description: a.GetDescription(),
			Enum: a.GetEnum(), Min: a.Min, Max: a.Max, Source: a.GetSource(), Sensitive: a.GetSensitive(),
		}
		values, err := DecodeValues(a.GetDefaultMsgpack())
		if err != nil {
			return out, fmt.Errorf("default of %q: %w", a.GetName(), err)
		}
		attribute.Default = values["value"]
		out.Attributes = append(out.Attributes, attribute)
	}
	for _, b := range s.GetBlocks() {
		inner, err := fromSchema(b.GetSchema(), depth+1)
		if err != nil {
			return out, err
		}
		out.Blocks = append(out.Blocks, schema.Block{
			Type: b.GetType(), Single: b.GetSingle(), Labels: int(b.GetLabels()), Required: b.GetRequired(), Schema: inner, Description: b.GetDescription(),
		})
	}
	return out, nil
}

// FromQuestion converts a question.
func FromQuestion(q *pb.Question) (episode.Question, error) {
	metadata, err := DecodeValues(q.GetMetadataMsgpack())
	if err != nil {
		return episode.Question{}, fmt.Errorf("metadata of question %q: %w", q.GetId(), err)
	}
	return episode.Question{
		ID: q.GetId(), Text: q.GetText(), Answers: q.GetAnswers(), Hops: int(q.GetHops()), Type: q.GetType(), Metadata: metadata,
		Gold: convert(q.GetGold(), func(g *pb.Gold) episode.Gold {
			return episode.Gold{Title: g.GetTitle(), DocumentID: g.GetDocumentId(), ParagraphID: g.GetParagraphId()}
		}),
	}, nil
}

// FromHit converts a hit.
func FromHit(h *pb.Hit) episode.Hit {
	return episode.Hit{
		DocumentID: h.GetDocumentId(), ParagraphID: h.GetParagraphId(), SentenceID: h.GetSentenceId(),
		Title: h.GetTitle(), Text: h.GetText(), Score: h.GetScore(),
	}
}

// FromHits converts hits.
func FromHits(hits []*pb.Hit) []episode.Hit { return convert(hits, FromHit) }

// FromBranch converts a branch; nil stays nil.
func FromBranch(b *pb.Branch) *episode.Branch {
	if b == nil {
		return nil
	}
	return &episode.Branch{EpisodeID: b.GetEpisodeId(), AfterTurn: int(b.GetAfterTurn())}
}

func fromSpan(s *pb.Span) episode.Span {
	return episode.Span{Start: int(s.GetStart()), End: int(s.GetEnd())}
}

// FromEpisode converts an episode and checks its structure, so that its methods cannot fail on it: segments and turns
// stay inside their sequence.
func FromEpisode(e *pb.Episode) (episode.Episode, error) {
	out := episode.Episode{
		ID: e.GetId(), QuestionID: e.GetQuestionId(), Parent: FromBranch(e.GetParent()),
		Counters: episode.Counters{
			Turns: int(e.GetCounters().GetTurns()), Searches: int(e.GetCounters().GetSearches()), Valid: int(e.GetCounters().GetValid()),
			Invalid: int(e.GetCounters().GetInvalid()), PolicyTokens: int(e.GetCounters().GetPolicyTokens()), ObservationTokens: int(e.GetCounters().GetObservationTokens()),
		},
		Rewards: episode.Rewards{Total: e.GetRewards().GetTotal(), TurnTotals: e.GetRewards().GetTurnTotals()},
	}
	fail := func(err error) (episode.Episode, error) {
		return episode.Episode{}, fmt.Errorf("episode %q: %w", e.GetId(), err)
	}
	if e != nil && e.Answer != nil {
		answer := e.GetAnswer()
		out.Answer = &answer
	}
	if leaves := e.GetRewards().GetLeaves(); len(leaves) > 0 {
		out.Rewards.Leaves = make(map[string]episode.Leaf, len(leaves))
		for name, l := range leaves {
			out.Rewards.Leaves[name] = episode.Leaf{Value: l.GetValue(), Components: l.GetComponents(), Turns: l.GetTurns()}
		}
	}
	var err error
	if out.Stop, err = stops.from("stop", e.GetStop()); err != nil {
		return fail(err)
	}
	if out.Origin, err = origins.from("origin", e.GetOrigin()); err != nil {
		return fail(err)
	}
	if out.Sequences, err = convertOrFail(e.GetSequences(), fromSequence); err != nil {
		return fail(err)
	}
	if out.Turns, err = convertOrFail(e.GetTurns(), fromTurn); err != nil {
		return fail(err)
	}
	return out, nil
}

func fromSequence(s *pb.Sequence) (episode.Sequence, error) {
	out := episode.Sequence{Prompt: s.GetPrompt(), PromptLength: int(s.GetPromptLength()), Length: int(s.GetLength())}
	const most = 1 << 30 // tokens: above any context, and masks of that length still fit in memory
	if out.PromptLength < 0 || out.Length < out.PromptLength || out.Length > most {
		return out, fmt.Errorf("a sequence of %d tokens with a prompt of %d", out.Length, out.PromptLength)
	}
	var err error
	out.Segments, err = convertOrFail(s.GetSegments(), func(g *pb.Segment) (episode.Segment, error) {
		kind, err := segmentKinds.from("segment kind", g.GetKind())
		segment := episode.Segment{Kind: kind, Start: int(g.GetStart()), End: int(g.GetEnd()), Text: g.GetText()}
		if err == nil && (segment.Start < out.PromptLength || segment.End < segment.Start || segment.End > out.Length) {
			err = fmt.Errorf("segment [%d, %d) is outside the response [%d, %d)", segment.Start, segment.End, out.PromptLength, out.Length)
		}
		return segment, err
	})
	return out, err
}

func fromTurn(t *pb.Turn) (episode.Turn, error) {
	out := episode.Turn{
		Sequence: int(t.GetSequence()), Span: fromSpan(t.GetSpan()), ActionSpan: fromSpan(t.GetActionSpan()), ObservationSpan: fromSpan(t.GetObservationSpan()),
		Text: t.GetText(), Thought: t.GetThought(), Tool: t.GetTool(), Hits: FromHits(t.GetHits()), Observation: t.GetObservation(), Error: t.GetError(),
		Executed: t.GetExecuted(), LatencySeconds: t.GetLatencySeconds(),
	}
	var err error
	if out.Action, err = actions.from("action", t.GetAction()); err != nil {
		return out, err
	}
	out.Arguments, err = DecodeValues(t.GetArgumentsMsgpack())
	return out, err
}

// FromObjective converts an objective. It does not type-check it: see [objective.Objective.Levels].
func FromObjective(o *pb.Objective) objective.Objective {
	out := objective.Objective{Name: o.GetName(), Trains: objective.Trains(o.GetTrains()), Loss: int(o.GetLoss())}
	out.Nodes = convert(o.GetNodes(), func(n *pb.Node) objective.Node {
		return objective.Node{
			Op: objective.Op(n.GetOp()), Inputs: convert(n.GetInputs(), func(i int64) int { return int(i) }), Name: n.GetName(), Value: n.GetValue(),
			From: fromLevel(n.GetFrom()), To: fromLevel(n.GetTo()), Reduce: objective.Reduction(n.GetReduce()), Mask: n.GetMask(),
		}
	})
	if metrics := o.GetMetrics(); len(metrics) > 0 {
		out.Metrics = make(map[string]int, len(metrics))
		for name, node := range metrics {
			out.Metrics[name] = int(node)
		}
	}
	return out
}

// fromLevel keeps the numbers of the SDK; an unknown one becomes 0, which the type check refuses.
func fromLevel(l pb.Level) objective.Level {
	if l < 0 || l > pb.Level_LEVEL_SCALAR {
		return 0
	}
	return objective.Level(l)
}

// FromKind converts a plugin kind to its name in HCL.
func FromKind[K ~string](k pb.Kind) (K, error) {
	name, err := kinds.from("kind", k)
	return K(name), err
}
