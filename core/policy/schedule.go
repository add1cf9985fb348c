package policy

import (
	"fmt"
	"math"
)

// Kinds of schedules of the learning rate.
const (
	ScheduleConstant = "constant"
	ScheduleLinear   = "linear" // falls linearly to Final at Total
	ScheduleCosine   = "cosine" // falls along half a cosine to Final at Total
)

// Schedule is the learning rate over the steps of a training, as a factor of the base rate.
type Schedule struct {
	Kind   string  // "" means constant
	Warmup int     // steps over which the rate rises linearly
	Total  int     // steps in all; not needed for a constant rate
	Final  float64 // factor at Total, in [0, 1]; not for a constant rate

	// AfterWarmup lets the fall begin where the warm-up ends, as transformers does; else both begin at step 0 and their
	// factors multiply.
	AfterWarmup bool

	// FirstAtZero counts the warm-up from 0, as veRL and transformers do: the first step of a warm-up has rate 0, and
	// so has the first step of a constant schedule without warm-up. Else step s of the warm-up has (s+1)/Warmup.
	FirstAtZero bool

	// PerOptimizerStep counts optimizer steps; else the schedule moves once per update, however many mini-batches and
	// epochs it has (veRL).
	PerOptimizerStep bool
}

func (s Schedule) validate() error {
	if s.Warmup < 0 {
		return fmt.Errorf("schedule: warm-up must not be negative, got %d", s.Warmup)
	}
	switch s.Kind {
	case "", ScheduleConstant:
		return nil
	case ScheduleLinear, ScheduleCosine:
		if !(s.Final >= 0 && s.Final <= 1) {
			return fmt.Errorf("schedule: final must be in [0, 1], got %v", s.Final)
		}
		if s.Total <= 0 {
			return fmt.Errorf("schedule %q needs the total number of steps", s.Kind)
		}
		return nil
	}
	return fmt.Errorf("schedule: unknown kind %q: use %q, %q or %q", s.Kind, ScheduleConstant, ScheduleLinear, ScheduleCosine)
}

// Factor is the factor of the base rate in step 0, 1, ...
func (s Schedule) Factor(step int) float64 {
	at := float64(step)
	warm := 1.
	switch {
	case s.FirstAtZero && step < max(s.Warmup, 1) && (s.Warmup > 0 || s.Kind == "" || s.Kind == ScheduleConstant):
		warm = at / float64(max(s.Warmup, 1))
	case !s.FirstAtZero && step+1 < s.Warmup:
		warm = (at + 1) / float64(s.Warmup)
	}
	from := 0.
	if s.AfterWarmup {
		from = float64(s.Warmup)
	}
	done := min(1, max(0, at-from)/max(1, float64(s.Total)-from))
	switch s.Kind {
	case ScheduleLinear:
		return warm * (s.Final + (1-s.Final)*(1-done))
	case ScheduleCosine:
		return warm * (s.Final + (1-s.Final)*.5*(1+math.Cos(math.Pi*done)))
	}
	return warm
}
