package policy

import (
	"math"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
)

func TestVectorSchedules(t *testing.T) {
	for _, topic := range []string{"search-r1", "david-grpo", "frugalrag"} {
		f := vectors.Load(t, topic, "lr_schedule")
		for _, c := range f.Cases {
			in := vectors.Decode[struct {
				Kind   string
				Base   float64 `json:"base_lr"`
				Ratio  float64 `json:"warmup_ratio"`
				Warmup *int    `json:"warmup_steps"`
				Total  int     `json:"total_steps"`
				Total2 int     `json:"total_training_steps"`
				Steps  []int   `json:"steps"`
			}](t, c.Input)
			want := vectors.Decode[struct {
				Rates []float64 `json:"lr_used_in_step"`
			}](t, c.Want())
			s := Schedule{Kind: in.Kind, Total: max(in.Total, in.Total2), FirstAtZero: true, AfterWarmup: true}
			if in.Warmup != nil {
				s.Warmup = *in.Warmup
			} else {
				s.Warmup = int(in.Ratio * float64(s.Total))
			}
			for i, step := range in.Steps {
				if got := in.Base * s.Factor(step); !f.Tolerance.Close(got, want.Rates[i]) {
					t.Errorf("%s %s: rate of step %d is %v, want %v", topic, c.ID, step, got, want.Rates[i])
				}
			}
		}
	}
}

func TestScheduleOfMiniHop(t *testing.T) {
	s := Schedule{Kind: ScheduleCosine, Warmup: 100, Total: 80, Final: .1}
	for _, step := range []int{0, 30, 79} {
		want := min(1, float64(step+1)/100) * (.1 + .45*(1+math.Cos(math.Pi*float64(step)/80)))
		if got := s.Factor(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
	if got := (Schedule{}).Factor(0); got != 1 {
		t.Errorf("a constant schedule starts at %v", got)
	}
	for _, bad := range []Schedule{{Kind: "sine"}, {Kind: ScheduleCosine}, {Warmup: -1}} {
		if bad.validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
