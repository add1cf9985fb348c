package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/internal/wire/wiretest"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"
)

const rounds = 300

// roundTrip sends random values through a message's bytes and back.
func roundTrip[V any, M proto.Message](t *testing.T, fix func(*rand.Rand, *V), to func(V) (M, error), from func(M) (V, error)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		var want V
		wiretest.Fill(r, reflect.ValueOf(&want).Elem())
		if fix != nil {
			fix(r, &want)
		}
		m, err := to(want)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again := m.ProtoReflect().New().Interface().(M)
		if err := proto.Unmarshal(b, again); err != nil {
			t.Fatal(err)
		}
		got, err := from(again)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("changed on the way:\n%s", d)
		}
	}
}

func TestRoundTrips(t *testing.T) {
	t.Run("question", func(t *testing.T) { roundTrip(t, nil, ToQuestion, FromQuestion) })
	t.Run("hit", func(t *testing.T) {
		roundTrip(t, nil, func(h episode.Hit) (*pb.Hit, error) { return ToHit(h), nil }, func(m *pb.Hit) (episode.Hit, error) { return FromHit(m), nil })
	})
	t.Run("episode", func(t *testing.T) {
		roundTrip(t, wiretest.Episode, ToEpisode, FromEpisode)
	})
	t.Run("objective", func(t *testing.T) {
		roundTrip(t, func(r *rand.Rand, o *objective.Objective) {
			for i := range o.Nodes {
				o.Nodes[i].From, o.Nodes[i].To = objective.Level(r.IntN(6)), objective.Level(r.IntN(6))
			}
		}, func(o objective.Objective) (*pb.Objective, error) { return ToObjective(o), nil },
			func(m *pb.Objective) (objective.Objective, error) { return FromObjective(m), nil })
	})
	t.Run("schema", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		var fix func(s *schema.Schema, depth int)
		fix = func(s *schema.Schema, depth int) {
			s.Blocks = nil
			if depth < 3 {
				s.Blocks = make([]schema.Block, r.IntN(3))
				for i := range s.Blocks {
					s.Blocks[i].Type = "b"
					fix(&s.Blocks[i].Schema, depth+1)
				}
			}
			s.Attributes = make([]schema.Attribute, r.IntN(3))
			for i := range s.Attributes {
				wiretest.Fill(r, reflect.ValueOf(&s.Attributes[i]).Elem())
			}
		}
		for range rounds {
			var want schema.Schema
			fix(&want, 0)
			m, err := ToSchema(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := FromSchema(m)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatal(d)
			}
		}
	})
	t.Run("diagnostics", func(t *testing.T) {
		want := diag.Diagnostics{
			{Severity: diag.Error, Summary: "s", Detail: "d", Path: diag.Attr("a").Index(3).Key("k").Index(0)},
			{Severity: diag.Warning, Summary: "w"},
		}
		if d := cmp.Diff(want, FromDiagnostics(ToDiagnostics(want)), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
	t.Run("values", func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for range rounds {
			want := map[string]any{"x": wiretest.JSON(r, 0), "y": wiretest.JSON(r, 0)}
			b, err := EncodeValues(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeValues(b)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
			again, err := EncodeValues(got)
			if err != nil || string(again) != string(b) {
				t.Fatalf("the bytes of equal values differ (%v)", err)
			}
		}
	})
}

func TestValuesOfGoTypes(t *testing.T) {
	b, err := EncodeValues(map[string]any{
		"index": schema.Ref{Handle: "h", Digest: "d", Unit: "sentence"}, "n": 3, "u": uint8(4), "f": float32(.5), "list": []string{"a"}, "map": map[string]float64{"x": 1},
		"pointer": new(7), "nothing": nil, "bad": "a\xffb",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeValues(b)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"index": map[string]any{"handle": "h", "digest": "d", "unit": "sentence"}, "n": int64(3), "u": int64(4), "f": .5, "list": []any{"a"}, "map": map[string]any{"x": 1.},
		"pointer": int64(7), "nothing": nil, "bad": "a\uFFFDb",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name, bad := range map[string]any{"function": func() {}, "channel": make(chan int), "map of numbers": map[int]int{1: 1}} {
		if _, err := EncodeValues(map[string]any{"x": bad}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	cycle := map[string]any{}
	cycle["x"] = cycle
	if _, err := EncodeValues(cycle); err == nil {
		t.Error("a cycle: no error")
	}
}

func TestHostileValues(t *testing.T) {
	for name, b := range map[string][]byte{
		"deep":       []byte("\x81\xa1x" + strings.Repeat("\x91", 1<<20) + "\xc0"),
		"long list":  []byte("\x81\xa1x\xdd\xff\xff\xff\xff"),
		"long map":   []byte("\xdf\xff\xff\xff\xff"),
		"long text":  []byte("\x81\xa1x\xdb\xff\xff\xff\xff"),
		"truncated":  []byte("\x82\xa1x\xc0"),
		"no map":     []byte("\x93\x01\x02\x03"),
		"extension":  []byte("\x81\xa1x\xd4\x01\x00"),
		"more":       []byte("\x80\x80"),
		"number key": []byte("\x81\x01\x01"),
	} {
		if v, err := DecodeValues(b); err == nil {
			t.Errorf("%s: decoded to %v", name, v)
		}
	}
}

func TestInvalidTextIsReplaced(t *testing.T) {
	bad := "cut \xe6\x97"
	e := episode.Episode{
		ID: "e", Sequences: []episode.Sequence{{Length: 1, Segments: []episode.Segment{{Kind: episode.Policy, End: 1, Text: bad}}}}, Answer: &bad,
		Turns: []episode.Turn{{Text: bad, Arguments: map[string]any{"query": bad}, Hits: []episode.Hit{{Text: bad}}}},
	}
	m, err := ToEpisode(e)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	got, err := FromEpisode(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{*got.Answer, got.Turns[0].Text, got.Turns[0].Query(), got.Turns[0].Hits[0].Text, got.Sequences[0].Segments[0].Text} {
		if !utf8.ValidString(text) || !strings.HasPrefix(text, "cut \uFFFD") {
			t.Errorf("got %q", text)
		}
	}
}

func TestUnknownEnumerations(t *testing.T) {
	if _, err := FromEpisode(&pb.Episode{Stop: 99}); err == nil {
		t.Error("an unknown stop is accepted")
	}
	if _, err := FromEpisode(&pb.Episode{Sequences: []*pb.Sequence{{Length: 1, Segments: []*pb.Segment{{Kind: 77}}}}}); err == nil {
		t.Error("an unknown segment kind is accepted")
	}
	if _, err := FromObjective(&pb.Objective{Trains: "policy", Nodes: []*pb.Node{{Op: "field", Name: "x", From: 42}}}).Levels(); err == nil {
		t.Error("an unknown level is accepted")
	}
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	for _, k := range wellKnownErrors() {
		sent := fmt.Errorf("what was asked for: %w", k.err)
		got := FromStatus(ToStatus(sent))
		if !errors.Is(got, k.err) || got.Error() != sent.Error() {
			t.Errorf("%v became %v", sent, got)
		}
		for _, other := range wellKnownErrors() {
			if other.err != k.err && other.err != ErrNotSupported && errors.Is(got, other.err) { //nolint:errorlint // identity is meant
				t.Errorf("%v became also %v", sent, other.err)
			}
		}
		// A second hop: a plugin passes the host's error on.
		if again := FromStatus(ToStatus(fmt.Errorf("step 3: %w", got))); !errors.Is(again, k.err) {
			t.Errorf("%v is lost on the second hop: %v", k.err, again)
		}
	}
	if got := FromStatus(ToStatus(context.Canceled)); !errors.Is(got, context.Canceled) {
		t.Errorf("got %v", got)
	}
	if got := FromStatus(ToStatus(errors.Join(ErrUnknownHandle, ErrInvalidRequest))); !errors.Is(got, ErrUnknownHandle) || !errors.Is(got, ErrInvalidRequest) {
		t.Errorf("got %v", got)
	}
	if got := FromStatus(status.Error(codes.Unimplemented, "unknown method")); !errors.Is(got, ErrNotSupported) {
		t.Errorf("got %v", got)
	}
	if ToStatus(nil) != nil || FromStatus(nil) != nil {
		t.Error("no error becomes one")
	}
}

func TestLimitNamesTheLimit(t *testing.T) {
	err := Limit(status.Error(codes.ResourceExhausted, "grpc: received message larger than max (67108865 vs. 67108864)"), "Score")
	if err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	plain := errors.New("plain")
	if got := Limit(plain, "Score"); !errors.Is(got, plain) || Limit(nil, "") != nil {
		t.Errorf("got %v", got)
	}
}

// FuzzFromMessages takes bytes for messages of each kind: whatever a peer sends is converted or refused.
func FuzzFromMessages(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 10 {
		var e episode.Episode
		wiretest.Fill(r, reflect.ValueOf(&e).Elem())
		wiretest.Episode(r, &e)
		m, err := ToEpisode(e)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	b, err := proto.Marshal(ToObjective(objective.Objective{Name: "o", Nodes: []objective.Node{{Op: objective.OpConst, Value: math.NaN()}}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var e pb.Episode
		if proto.Unmarshal(b, &e) == nil {
			if got, err := FromEpisode(&e); err == nil {
				for _, s := range got.Sequences {
					if s.Length < 1<<16 && len(s.PolicyMask()) != s.ResponseLength() {
						t.Error("mask and response differ in length")
					}
				}
			}
		}
		var o pb.Objective
		if proto.Unmarshal(b, &o) == nil {
			got := FromObjective(&o)
			if _, err := got.Levels(); err == nil {
				got.Fields()
			}
		}
		var s pb.Schema
		if proto.Unmarshal(b, &s) == nil {
			if _, err := FromSchema(&s); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
		var q pb.Question
		if proto.Unmarshal(b, &q) == nil {
			if _, err := FromQuestion(&q); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
		var d pb.ValidateResponse
		if proto.Unmarshal(b, &d) == nil {
			FromDiagnostics(d.GetDiagnostics())
		}
		if v, err := DecodeValues(b); err == nil {
			if _, err := EncodeValues(v); err != nil {
				t.Errorf("%v decodes and does not encode: %v", v, err)
			}
		}
	})
}
