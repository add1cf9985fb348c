package suggest

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"learning_rate", "eps", "k", "group_size"}
	for got, want := range map[string]string{
		"learning_rte": "learning_rate", "groupsize": "group_size", "esp": "", "ep": "eps", "zzz": "", "": "", "x": "",
	} {
		if near := Nearest(got, known); near != want {
			t.Errorf("%q: %q, want %q", got, near, want)
		}
	}
	if near := Nearest("stag", []string{"stay", "stage"}); near != "stage" {
		t.Errorf("equally near: %q, want the first in the alphabet", near)
	}
}
