package dataset

import (
	"cmp"
	"fmt"
	"math"

	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// MiniHop are the attributes of a dataset of the embedded world.
type MiniHop struct {
	// Split is "train" (256 questions by default), "test" (150), "experts" (training questions with the scripted gold
	// chain, 100 by default, the hop counts repeating 2, 2, 3, 3 unless Hops is set) or "stream" (the endless
	// pre-training examples of Phase).
	Split string
	// World is the seed of the world, for a stream the seed of its worlds.
	World uint64
	// Hops is the share of questions with 1, 2 and 3 hops; zero means the split's default.
	Hops [3]float64
	// TwoTokenNames gives every entity a second name.
	TwoTokenNames bool
	// Dimensions and K are those of the retriever whose results scripted episodes show; 0 means 128 and the protocol's.
	Dimensions, K int

	// Phase, FullShare, WrongQuery and PerWorld describe a stream: see [minihop.StreamOptions].
	Phase      string
	FullShare  *float64
	WrongQuery *float64
	PerWorld   int

	// Protocol is what scripted episodes are written in; "" means tags. See [minihop.Protocol].
	Protocol minihop.Protocol `json:",omitempty"`
}

func openMiniHop(o MiniHop, limit int) (*Dataset, error) {
	if o.Split != "stream" && (o.Phase != "" || o.FullShare != nil || o.WrongQuery != nil || o.PerWorld != 0) {
		return nil, fmt.Errorf(`dataset: phase, full_share, wrong_query and per_world are for split = "stream", not %q`, o.Split)
	}
	if err := o.Protocol.Check(); err != nil {
		return nil, err
	}
	world := minihop.Options{TwoTokenNames: o.TwoTokenNames, Mix: o.Hops}
	switch o.Split {
	case "train", "test":
		w, err := minihop.NewWorld(o.World, world)
		if err != nil {
			return nil, err
		}
		questions, err := w.Questions(o.Split, limit)
		if err != nil {
			return nil, err
		}
		var all []Item
		for _, q := range questions {
			all = append(all, Item{Question: q, Place: "minihop"})
		}
		return newDataset(all)
	case "experts":
		return openExperts(o, world, cmp.Or(limit, 100))
	case "stream":
		return openStream(o, world, limit)
	}
	return nil, fmt.Errorf(`dataset: unknown split %q of minihop, want "train", "test", "experts" or "stream"`, o.Split)
}

func openExperts(o MiniHop, world minihop.Options, n int) (*Dataset, error) {
	w, err := minihop.NewWorld(o.World, world)
	if err != nil {
		return nil, err
	}
	retrieval, err := w.Retrieval(o.Protocol, o.Dimensions, o.K)
	if err != nil {
		return nil, err
	}
	questions, err := w.Questions("train", max(n, minihop.TrainQuestions))
	if err != nil {
		return nil, err
	}
	if o.Hops == [3]float64{} {
		if questions, err = inTurn(questions, n); err != nil {
			return nil, err
		}
	}
	var all []Item
	for _, q := range questions[:n] {
		t, err := w.ExpertIn(o.Protocol, q, retrieval)
		if err != nil {
			return nil, err
		}
		all = append(all, Item{q, Expert{t.Text(), "the minihop script: " + q.ID}, "minihop"})
	}
	return newDataset(all)
}

// inTurn picks n questions whose hop counts repeat 2, 2, 3, 3.
func inTurn(questions []episode.Question, n int) ([]episode.Question, error) {
	queue := map[int][]episode.Question{}
	for _, q := range questions {
		queue[q.Hops] = append(queue[q.Hops], q)
	}
	picked := make([]episode.Question, n)
	for i := range picked {
		hops := 2 + i%4/2
		if len(queue[hops]) == 0 {
			return nil, fmt.Errorf("dataset: %d experts asked for, the world's training questions give %d; lower the limit or set hops", n, i)
		}
		picked[i], queue[hops] = queue[hops][0], queue[hops][1:]
	}
	return picked, nil
}

func openStream(o MiniHop, world minihop.Options, limit int) (*Dataset, error) {
	open := func(w *minihop.World) (minihop.Retrieval, error) {
		return w.Retrieval(o.Protocol, o.Dimensions, o.K)
	}
	s, err := minihop.NewStream(minihop.StreamOptions{
		Seed: o.World, Phase: minihop.Phase(o.Phase), FullShare: o.FullShare, WrongQuery: o.WrongQuery, PerWorld: o.PerWorld, World: world, Protocol: o.Protocol,
	}, open)
	if err != nil {
		return nil, err
	}
	// The first examples stand for the law of the stream, the options for the rest.
	sum := newDigest()
	if err := sum.add("minihop stream 1", o, limit); err != nil {
		return nil, fmt.Errorf("dataset: minihop stream: %w", err)
	}
	for i := range 16 {
		example, err := s.At(i)
		if err != nil {
			return nil, err
		}
		if err := sum.add(example); err != nil {
			return nil, fmt.Errorf("dataset: minihop stream: %w", err)
		}
	}
	return &Dataset{stream: s, length: cmp.Or(limit, math.MaxInt32), digest: sum.String()}, nil
}
