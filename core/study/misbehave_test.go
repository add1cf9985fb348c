package study

import (
	"math"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
)

// wrong is the value of the only axis.
func wrong(r plan.Run) string { return strings.Trim(r.Cell.Axes[0].Value, `"`) }

// TestMisbehaviour: whatever an algorithm or a reward in a process of its own gets wrong ends its run before a weight
// has changed by it, with an error that says where and what; the other runs go on.
func TestMisbehaviour(t *testing.T) {
	if testing.Short() {
		t.Skip("runs two studies")
	}
	e := thirdParty(t, "misbehave")
	for ablation, wants := range map[string]map[string][]string{
		"algorithm": {
			"nothing": nil, "metric": nil,
			"sequence":          {"sample 0", "has 1 sequences, not one of number 1"},
			"samples":           {`update 0 (objective "weighted")`, "has no samples"},
			"field_name":        {"sample 0", `lacks the field "weight" (per sequence)`},
			"infinite":          {`field "weight"`, "-Inf; it must be finite"},
			"overflow":          {"sample 0", `field "weight"`, "Inf"},
			"unit":              {`unknown unit "batch"`, "question, episode or sequence"},
			"count":             {"mini-batch of -1"},
			"order":             {`unknown order "sorted"`},
			"epochs":            {"-1 epochs"},
			"temperature":       {"temperature must be positive and finite, got -1"},
			"not_a_temperature": {"temperature must be positive and finite, got NaN"},
			"loss":              {"step 0", `update 0 (objective "exploding")`, "of optimizer step 0 is not finite", "first in sample 0", "the step was not applied"},
			"pairs":             {`objective "pairs"`, "has 3 sequences; a difference needs exactly 2"},
			"used_nan":          {`algorithm "misbehave/misbehave" reports a reward of NaN`},
			"used_turns":        {"reports rewards of 99 turns"},
			"artefact":          {"artefact"},
		},
		"reward": {
			"nothing":   nil,
			"few":       {`reward "outcome"`, "stage.main.reward.outcome", "2 scores for 3 episodes"},
			"many":      {"4 scores for 3 episodes"},
			"nan":       {"NaN to episode main.0.", "of question", "a score must be finite"},
			"infinite":  {"+Inf to episode main.0."},
			"component": {`NaN as component "form" to episode main.0.`},
			"turns":     {"scores of turns to episode main.0."},
			"turn_nan":  {"NaN to turn", "of episode main.0."},
		},
	} {
		p, err := e.plan(t.Context(), "testdata/misbehave", ablation, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Runs) != len(wants) {
			t.Errorf("%s: %d runs, the test knows %d", ablation, len(p.Runs), len(wants))
		}
		dir := record.Study{Dir: t.TempDir()}
		summary, err := Execute(t.Context(), e.options(p, dir.Dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			name := wrong(r)
			got := summary.Errors[r.ID]
			if wants[name] == nil {
				if got != nil {
					t.Errorf("%s %s: %v", ablation, name, got)
				}
				continue
			}
			for _, want := range append(wants[name], "stage \"main\": step 0") {
				if got == nil || !strings.Contains(got.Error(), want) {
					t.Errorf("%s %s: got %v, want %q", ablation, name, got, want)
				}
			}
			if _, ok, _ := dir.Run(r.ID).ReadResult(); ok {
				t.Errorf("%s %s: a failed run has a result", ablation, name)
			}
		}
		for _, r := range p.Runs {
			if wrong(r) == "metric" {
				lines, err := record.ReadMetrics(dir.Run(r.ID))
				if err != nil || len(lines) != 1 || !math.IsNaN(lines[0].Values["misbehave/nan"]) {
					t.Errorf("a metric that is no number must stand in the record as such: %v, %v", lines, err)
				}
			}
		}
	}
}
