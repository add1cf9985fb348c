package run

import "testing"

func TestHeld(t *testing.T) {
	row := []int32{1, 2, 3, 4}
	for name, c := range map[string]struct {
		held held
		want int
	}{
		"nothing":                {held{}, 0},
		"gone on from":           {held{tokens: row[:3]}, 3},
		"begun alike":            {held{tokens: []int32{1, 2, 9, 4, 5}}, 2},
		"begun otherwise":        {held{tokens: []int32{9}}, 0},
		"longer than what it is": {held{tokens: []int32{1, 2, 3, 4, 5}}, 4},
		"forked":                 {held{forked: 2}, 2},
	} {
		if got := c.held.of(row); got != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
}
