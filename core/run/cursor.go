package run

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// cursor draws the questions of a stage one after the other, over as many passes as it takes. Its position is all
// that a checkpoint has to hold.
type cursor struct {
	data    *questions
	order   []int // numbers of the questions of one pass; nil for a stream
	shuffle bool
	key     rng.Key

	position int
	pass     int
	permuted []int
}

// newCursor starts at the first question. hops, if not empty, keeps only questions with these numbers of hops.
func newCursor(data *questions, hops []int, shuffle bool, key rng.Key) (*cursor, error) {
	c := &cursor{data: data, shuffle: shuffle, key: key, pass: -1}
	if data.Endless() {
		if shuffle || len(hops) > 0 {
			return nil, fmt.Errorf("a stream has neither an order nor a filter of hops")
		}
		return c, nil
	}
	var err error
	c.order, err = positions(data, hops)
	return c, err
}

// positions lists the numbers of the questions with the given hops.
func positions(data *questions, hops []int) ([]int, error) {
	var list []int
	for i, q := range data.Questions() {
		if len(hops) == 0 || slices.Contains(hops, q.Hops) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no question of the dataset has %v hops", hops)
	}
	return list, nil
}

// drawn is a question with its number in the dataset.
type drawn struct {
	episode.Question
	plain episode.Question // without annotations; set once the question is part of a step
	index int
}

// draw gives the next n questions and moves on.
func (c *cursor) draw(n int) ([]drawn, error) {
	list := make([]drawn, n)
	for i := range list {
		index := c.index(c.position)
		q, err := c.data.At(index)
		if err != nil {
			return nil, err
		}
		list[i] = drawn{Question: q, index: index}
		c.position++
	}
	return list, nil
}

func (c *cursor) index(position int) int {
	if c.order == nil {
		return position
	}
	pass, offset := position/len(c.order), position%len(c.order)
	if !c.shuffle {
		return c.order[offset]
	}
	if pass != c.pass {
		c.permuted = slices.Clone(c.order)
		rand.New(c.key.With(uint64(pass)).Source()).Shuffle(len(c.permuted), func(i, j int) {
			c.permuted[i], c.permuted[j] = c.permuted[j], c.permuted[i]
		})
		c.pass = pass
	}
	return c.permuted[offset]
}
