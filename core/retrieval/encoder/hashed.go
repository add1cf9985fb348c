package encoder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/forage-rl/forage/core/retrieval/internal/words"
)

// HashedOptions of [NewHashed]. Zero numbers mean the defaults.
type HashedOptions struct {
	// Dimensions of the vectors, 1 to 65536; default 128.
	Dimensions int
	// Hashes is the number of coordinates that a word sets, 1 to 16; default 2.
	Hashes int
	// TitleWeight is the weight of a word that stands in the title, greater than 0; a word of the text alone weighs 1.
	// Default 3.
	TitleWeight float64
	// Stop lists words that do not count.
	Stop []string
	// Words says how a text is cut; default [LetterWords].
	Words Words
}

// Words is a rule that cuts a text into words.
type Words = words.Rule

// The rules.
const (
	// LetterWords are runs of letters, marks and numbers in lower case: for real text.
	LetterWords = words.Letters
	// BlankWords are what stands between white space, as it is: for worlds whose tokens are words.
	BlankWords = words.Blanks
)

// Hashed is a bag of words hashed into few dimensions (feature hashing with signs, Weinberger et al. 2009). Word w sets,
// for each h below Hashes, coordinate crc32("0:h:w") mod Dimensions to ±1, the sign being that sum's bit 16 (1 is
// plus). A passage is the sum over its distinct words of idf · weight · hash, divided by its Euclidean length; a query
// the sum over its distinct words of idf · hash. idf(w) = ln(1 + (N - df + 0.5) / (df + 0.5)) over the N passages it was
// fitted to. A query's words that no passage holds are left out: they would only add noise.
type Hashed struct {
	options HashedOptions
	stop    map[string]bool
	// passages and counts are the statistics; passages is 0 before Fit.
	passages int
	counts   map[string]uint32
}

var (
	_ Fitter = (*Hashed)(nil)
	_ Fitted = (*Hashed)(nil)
)

// NewHashed gives an encoder that is not yet fitted.
func NewHashed(options HashedOptions) (*Hashed, error) {
	options.Dimensions = cmp.Or(options.Dimensions, 128)
	options.Hashes = cmp.Or(options.Hashes, 2)
	options.TitleWeight = cmp.Or(options.TitleWeight, 3)
	options.Words = cmp.Or(options.Words, LetterWords)
	switch {
	case options.Dimensions < 1 || options.Dimensions > 1<<16:
		return nil, fmt.Errorf("hashed encoder: dimensions = %d, expected 1 to 65536", options.Dimensions)
	case options.Hashes < 1 || options.Hashes > 16:
		return nil, fmt.Errorf("hashed encoder: hashes = %d, expected 1 to 16", options.Hashes)
	case !(options.TitleWeight > 0) || math.IsInf(options.TitleWeight, 0):
		return nil, fmt.Errorf("hashed encoder: title_weight = %g, expected a number above 0", options.TitleWeight)
	}
	if err := options.Words.Check(); err != nil {
		return nil, fmt.Errorf("hashed encoder: %w", err)
	}
	options.Stop = slices.Clone(options.Stop)
	slices.Sort(options.Stop)
	e := &Hashed{options: options, stop: make(map[string]bool, len(options.Stop))}
	for _, word := range options.Stop {
		e.stop[word] = true
	}
	return e, nil
}

// Name implements [Encoder].
func (e *Hashed) Name() string { return "hashed" }

// Dimensions implements [Encoder].
func (e *Hashed) Dimensions() int { return e.options.Dimensions }

// Digest implements [Encoder].
func (e *Hashed) Digest() string {
	o := e.options
	sum := sha256.Sum256(fmt.Appendf(nil, "hashed 1 %d %d %g %s %q", o.Dimensions, o.Hashes, o.TitleWeight, o.Words, o.Stop))
	return hex.EncodeToString(sum[:])
}

// Fit implements [Fitter].
func (e *Hashed) Fit(ctx context.Context, passages iter.Seq[Passage]) (Fitted, error) {
	fitted := &Hashed{options: e.options, stop: e.stop, counts: map[string]uint32{}}
	for p := range passages {
		if fitted.passages++; fitted.passages%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for word := range e.weights(p) {
			fitted.counts[word]++
		}
	}
	if fitted.passages == 0 {
		return nil, errors.New("hashed encoder: no passages to take word frequencies from")
	}
	return fitted, nil
}

// State implements [Fitted]: the number of passages and each word with its count, in the order of the words.
func (e *Hashed) State() []byte {
	state := binary.AppendUvarint(nil, uint64(e.passages))
	for _, word := range slices.Sorted(maps.Keys(e.counts)) {
		state = binary.AppendUvarint(state, uint64(len(word)))
		state = append(state, word...)
		state = binary.AppendUvarint(state, uint64(e.counts[word]))
	}
	return state
}

// Restore implements [Fitter].
func (e *Hashed) Restore(state []byte) (Fitted, error) {
	damaged := errors.New("hashed encoder: the kept word frequencies are damaged")
	fitted := &Hashed{options: e.options, stop: e.stop, counts: map[string]uint32{}}
	number := func() (uint64, bool) {
		value, size := binary.Uvarint(state)
		if size <= 0 {
			return 0, false
		}
		state = state[size:]
		return value, true
	}
	passages, ok := number()
	if !ok || passages == 0 || passages > math.MaxUint32 {
		return nil, damaged
	}
	fitted.passages = int(passages)
	for len(state) > 0 {
		length, ok := number()
		if !ok || length > uint64(len(state)) {
			return nil, damaged
		}
		word := string(state[:length])
		state = state[length:]
		count, ok := number()
		if !ok || count == 0 || count > passages {
			return nil, damaged
		}
		fitted.counts[word] = uint32(count)
	}
	return fitted, nil
}

// EncodeQueries implements [Encoder].
func (e *Hashed) EncodeQueries(ctx context.Context, queries []string) ([][]float32, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(queries))
	for i, query := range queries {
		weights := map[string]float64{}
		for word := range e.words(query) {
			if e.counts[word] > 0 {
				weights[word] = 1
			}
		}
		vectors[i] = round(e.sum(weights), 1)
	}
	return vectors, nil
}

// EncodePassages implements [Encoder].
func (e *Hashed) EncodePassages(ctx context.Context, passages []Passage) ([][]float32, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(passages))
	for i, p := range passages {
		sum := e.sum(e.weights(p))
		length := 0.0
		for _, x := range sum {
			length += x * x
		}
		vectors[i] = round(sum, cmp.Or(math.Sqrt(length), 1))
	}
	return vectors, nil
}

func (e *Hashed) ready(ctx context.Context) error {
	if e.passages == 0 {
		return errors.New("hashed encoder: fit it to a corpus first")
	}
	return ctx.Err()
}

// weights gives the distinct words of a passage.
func (e *Hashed) weights(p Passage) map[string]float64 {
	weights := map[string]float64{}
	for word := range e.words(p.Text) {
		weights[word] = 1
	}
	for word := range e.words(p.Title) {
		weights[word] = e.options.TitleWeight
	}
	return weights
}

// sum adds up the hashes of words. The order is fixed because floating-point sums depend on it.
func (e *Hashed) sum(weights map[string]float64) []float64 {
	vector := make([]float64, e.options.Dimensions)
	var key []byte
	for _, word := range slices.Sorted(maps.Keys(weights)) {
		df := float64(e.counts[word])
		value := weights[word] * math.Log(1+(float64(e.passages)-df+.5)/(df+.5))
		for h := range e.options.Hashes {
			key = append(strconv.AppendInt(append(key[:0], "0:"...), int64(h), 10), ':')
			sum := crc32.ChecksumIEEE(append(key, word...))
			if sum>>16&1 == 1 {
				vector[sum%uint32(len(vector))] += value
			} else {
				vector[sum%uint32(len(vector))] -= value
			}
		}
	}
	return vector
}

func round(vector []float64, length float64) []float32 {
	rounded := make([]float32, len(vector))
	for i, x := range vector {
		rounded[i] = float32(x / length)
	}
	return rounded
}

// words yields the words of a text that count.
func (e *Hashed) words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range e.options.Words.Cut(text) {
			if !e.stop[word] && !yield(word) {
				return
			}
		}
	}
}
