package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Spec says what to open: a file (Path) or the embedded world (Builtin), exactly one of them.
type Spec struct {
	// Path is a file: JSON Lines (.jsonl, .ndjson, .json), a JSON list (.json), both also as .gz or .zst, Parquet
	// (.parquet), or CSV with a header (.csv).
	Path string
	// Format names the record format (see [Formats]); empty means by the fields of each file's first record.
	Format string
	// QuestionAfter is for records that hold the question only inside a prompt: the question is what follows the last
	// occurrence of this text. Empty means the markers of the known data sets.
	QuestionAfter string

	// Builtin is "minihop".
	Builtin string
	MiniHop MiniHop

	// Limit keeps that many questions; 0 means all. Fewer in the source are an error.
	Limit int
	// Seed, for files, makes Limit a random draw without replacement, in the order drawn; nil keeps the file's order.
	Seed *uint64
}

// Dataset is a numbered set of questions. It is safe for concurrent use.
type Dataset struct {
	questions []episode.Question
	experts   []Expert // as many as questions; a zero one where there is none
	index     map[string]int
	stream    *minihop.Stream
	length    int
	digest    string
}

// Expert is the text of an episode by an expert, in the protocol of the stage that uses it.
type Expert struct {
	Text  string
	Place string // file:line, or what else says where the text is from
}

// Open reads a dataset.
func Open(ctx context.Context, spec Spec) (*Dataset, error) {
	switch {
	case spec.Limit < 0:
		return nil, fmt.Errorf("dataset: limit is %d, want 0 (all) or more", spec.Limit)
	case (spec.Path == "") == (spec.Builtin == ""):
		return nil, errors.New(`dataset: want either a path or builtin = "minihop"`)
	case spec.Builtin == "minihop":
		if spec.Format != "" || spec.QuestionAfter != "" || spec.Seed != nil {
			return nil, errors.New("dataset: format, question_after and a sampling seed are for files, not for the embedded world")
		}
		return openMiniHop(spec.MiniHop, spec.Limit)
	case spec.Builtin != "":
		return nil, fmt.Errorf(`dataset: unknown builtin %q, want "minihop"`, spec.Builtin)
	}
	parse, err := parserOf(spec)
	if err != nil {
		return nil, err
	}
	var all []Item
	for rec, err := range records(ctx, spec.Path) {
		if err != nil {
			return nil, err
		}
		q, expert, err := parse(rec)
		if err != nil {
			return nil, err
		}
		all = append(all, Item{q, Expert{expert, rec.place}, rec.place})
		if spec.Seed == nil && len(all) == spec.Limit {
			break
		}
	}
	return Of(all, spec.Path, spec.Limit, spec.Seed)
}

// Item is a question of a dataset with its expert, whose text is empty where there is none, and where it is from.
type Item struct {
	Question episode.Question
	Expert   Expert
	Place    string
}

// Of makes a dataset of the first limit items (0: of all), or of limit drawn without replacement in the order drawn
// where seed is given. Ids must be unique. what names the source in errors.
func Of(all []Item, what string, limit int, seed *uint64) (*Dataset, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("dataset: %s holds no questions", what)
	}
	if limit > len(all) {
		return nil, fmt.Errorf("dataset: limit is %d, but %s holds %d questions; lower the limit", limit, what, len(all))
	}
	if err := checkUnique(all); err != nil {
		return nil, err
	}
	if seed != nil {
		all = slices.Clone(all)
		draw := rand.New(rng.New(*seed).WithString("dataset/sample").Source())
		draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	if limit > 0 {
		all = all[:limit]
	}
	return newDataset(all)
}

// Items gives all of a dataset that is no stream. what names it in places that say nothing else.
func (d *Dataset) Items(what string) []Item {
	items := make([]Item, len(d.questions))
	for i, q := range d.questions {
		items[i] = Item{q, d.experts[i], d.experts[i].Place}
		if items[i].Place == "" {
			items[i].Place = fmt.Sprintf("%s, question %d", what, i+1)
		}
	}
	return items
}

func checkUnique(all []Item) error {
	places := make(map[string]string, len(all))
	for _, it := range all {
		if was, ok := places[it.Question.ID]; ok {
			return fmt.Errorf("%s: id %q was given before at %s; ids must be unique", it.Place, it.Question.ID, was)
		}
		places[it.Question.ID] = it.Place
	}
	return nil
}

func newDataset(all []Item) (*Dataset, error) {
	d := &Dataset{index: make(map[string]int, len(all)), length: len(all)}
	sum := newDigest()
	for i, it := range all {
		if it.Expert.Text == "" {
			it.Expert = Expert{}
		}
		d.questions = append(d.questions, it.Question)
		d.experts = append(d.experts, it.Expert)
		d.index[it.Question.ID] = i
		if err := sum.add(it.Question, it.Expert.Text); err != nil {
			return nil, fmt.Errorf("dataset: question %q at %s: %w", it.Question.ID, it.Place, err)
		}
	}
	d.digest = sum.String()
	return d, nil
}

// Len is the number of questions; for a stream without a limit, a number that no run reaches.
func (d *Dataset) Len() int { return d.length }

// Endless says whether the dataset is a stream, whose questions are made when they are asked for.
func (d *Dataset) Endless() bool { return d.stream != nil }

// At gives question i, 0 <= i < Len(). Its slices and maps are shared: they must not be changed.
func (d *Dataset) At(i int) (episode.Question, error) {
	if i < 0 || i >= d.length {
		return episode.Question{}, fmt.Errorf("dataset: question %d of %d", i, d.length)
	}
	if d.stream == nil {
		return d.questions[i], nil
	}
	example, err := d.stream.At(i)
	return example.Question, err
}

// Expert gives the expert's episode of question i; ok is false where there is none.
func (d *Dataset) Expert(i int) (expert Expert, ok bool, err error) {
	if i < 0 || i >= d.length {
		return Expert{}, false, fmt.Errorf("dataset: expert of question %d of %d", i, d.length)
	}
	if d.stream == nil {
		return d.experts[i], d.experts[i].Text != "", nil
	}
	example, err := d.stream.At(i)
	if err != nil {
		return Expert{}, false, err
	}
	return Expert{example.Transcript.Text(), "the minihop stream: " + example.Question.ID}, true, nil
}

// Experts counts the questions with an expert.
func (d *Dataset) Experts() int {
	if d.stream != nil {
		return d.length
	}
	n := 0
	for _, e := range d.experts {
		if e.Text != "" {
			n++
		}
	}
	return n
}

// Find gives the number of the question with this id; a stream finds none.
func (d *Dataset) Find(id string) (int, bool) {
	i, ok := d.index[id]
	return i, ok
}

// Digest identifies the questions and experts, in order: equal digests mean equal datasets.
func (d *Dataset) Digest() string { return d.digest }

// Questions gives all questions of a dataset that is no stream.
func (d *Dataset) Questions() []episode.Question { return slices.Clone(d.questions) }

type digest struct{ sum hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(values ...any) error {
	for _, v := range values {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		d.sum.Write(append(data, '\n'))
	}
	return nil
}

func (d digest) String() string { return hex.EncodeToString(d.sum.Sum(nil)) }
