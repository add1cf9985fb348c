package lines

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestAt: every position of a text, whatever the sizes of the reads.
func TestAt(t *testing.T) {
	text := "a\n\nbc\nd"
	want := []int{1, 1, 2, 3, 3, 3, 4}
	for name, in := range map[string]io.Reader{
		"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "buffered": bufio.NewReader(strings.NewReader(text)),
	} {
		c := New(in, 1)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
		for i, line := range want {
			if got := c.At(int64(i)); got != line {
				t.Errorf("%s: position %d lies in line %d, want %d", name, i, got, line)
			}
		}
	}
}

// TestWhileReading: positions already read can be asked for before the rest is.
func TestWhileReading(t *testing.T) {
	c := New(strings.NewReader("a\nb\nc\n"), 7)
	buf := make([]byte, 3)
	if _, err := io.ReadFull(c, buf); err != nil {
		t.Fatal(err)
	}
	if got := c.At(2); got != 8 {
		t.Errorf("line %d, want 8", got)
	}
	if _, err := io.ReadFull(c, buf); err != nil {
		t.Fatal(err)
	}
	if got := c.At(4); got != 9 {
		t.Errorf("line %d, want 9", got)
	}
}
