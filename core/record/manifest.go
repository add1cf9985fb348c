package record

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Manifest holds the preconditions of a run: what, besides its configuration, its numbers depend on.
type Manifest struct {
	Run     string    `json:"run"`
	Created time.Time `json:"created"`
	// Digests by role: dataset.train, corpus.wiki, index.dense, encoder.e5, policy.main, tokenizer.main,
	// plugin.forage-algorithms, core, checkpoint …
	Digests map[string]string `json:"digests"`

	Backend     string   `json:"backend"`      // such as "go" or "xla:cpu"
	CPUFeatures []string `json:"cpu_features"` // that the backend uses, such as "avx2"
	BuildFlags  []string `json:"build_flags"`  // such as "GOEXPERIMENT=simd"
	GoVersion   string   `json:"go_version"`
	Executors   int      `json:"executors"` // how many workers share the sums of a step

	Deterministic      bool `json:"deterministic"`
	TrainsObservations bool `json:"trains_observations,omitempty"` // the plan declared a loss on observation tokens
}

// Change is one difference between two manifests.
type Change struct {
	Name     string `json:"name"` // such as "dataset.train" or "cpu features"
	Old      string `json:"old,omitempty"`
	New      string `json:"new,omitempty"`
	Platform bool   `json:"platform,omitempty"` // of the machine or build, not of what is read: results differ in rounding only
}

// String is the change in words, such as "dataset.train changed (now 70a55f53e825)": another change reads differently.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Name + " is new"
	case c.New == "":
		return c.Name + " is gone"
	case c.Platform:
		return fmt.Sprintf("%s changed (%s, was %s)", c.Name, c.New, c.Old)
	}
	return fmt.Sprintf("%s changed (now %.12s)", c.Name, c.New)
}

// Diff lists what changed from old to now: digests by name, then backend, CPU features, build flags, Go version and
// executors.
func Diff(old, now Manifest) []Change {
	var changes []Change
	add := func(name, a, b string, platform bool) {
		if a != b {
			changes = append(changes, Change{Name: name, Old: a, New: b, Platform: platform})
		}
	}
	names := map[string]bool{}
	for name := range old.Digests {
		names[name] = true
	}
	for name := range now.Digests {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add(name, old.Digests[name], now.Digests[name], false)
	}
	add("trains_observations", strconv.FormatBool(old.TrainsObservations), strconv.FormatBool(now.TrainsObservations), false)
	add("backend", old.Backend, now.Backend, true)
	add("cpu features", joinSorted(old.CPUFeatures), joinSorted(now.CPUFeatures), true)
	add("build flags", joinSorted(old.BuildFlags), joinSorted(now.BuildFlags), true)
	add("go version", old.GoVersion, now.GoVersion, true)
	add("executors", strconv.Itoa(old.Executors), strconv.Itoa(now.Executors), true)
	add("deterministic", strconv.FormatBool(old.Deterministic), strconv.FormatBool(now.Deterministic), true)
	return changes
}

// joinSorted makes a text that does not depend on the order of the parts; "none" keeps an empty list from reading as
// an absent one.
func joinSorted(parts []string) string {
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(parts)), " ")
}
