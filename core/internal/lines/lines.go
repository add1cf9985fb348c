// Package lines tells in which line of a text a position lies while the text streams by.
//
// It owns the counting alone: it must not know what is read.
package lines

import "io"

// Counter notes where the lines of what is read through it end.
type Counter struct {
	in   io.Reader
	read int64
	ends []int64 // of lines not passed yet
	line int     // of the last position asked for
}

// New counts the lines of in, whose first is number first.
func New(in io.Reader, first int) *Counter { return &Counter{in: in, line: first} }

// Read implements [io.Reader].
func (c *Counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.ends = append(c.ends, c.read+int64(i))
		}
	}
	c.read += int64(n)
	return n, err
}

// At gives the line of a position, counted in bytes from 0. Positions must be asked for in ascending order.
func (c *Counter) At(position int64) int {
	passed := 0
	for passed < len(c.ends) && c.ends[passed] < position {
		passed++
	}
	c.line += passed
	c.ends = append(c.ends[:0], c.ends[passed:]...)
	return c.line
}
