package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// MetricsLine is one line of an attempt's metrics.jsonl.
type MetricsLine struct {
	Step    int       `json:"step"` // training steps finished when the values were taken; 0 is before the first
	Attempt int       `json:"attempt"`
	Time    time.Time `json:"time"`
	Values  Values    `json:"values"`
}

// Values are metrics by name. In JSON, which has no such numbers, NaN and the infinities are the strings "NaN", "Inf"
// and "-Inf": a diverged loss stays visible in the record instead of ending the run that writes it.
type Values map[string]float64

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(v))
	for name, x := range v {
		switch {
		case math.IsNaN(x):
			out[name] = "NaN"
		case math.IsInf(x, 1):
			out[name] = "Inf"
		case math.IsInf(x, -1):
			out[name] = "-Inf"
		default:
			out[name] = x
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	out := make(Values, len(raw))
	for name, text := range raw {
		switch string(text) {
		case `"NaN"`:
			out[name] = math.NaN()
		case `"Inf"`:
			out[name] = math.Inf(1)
		case `"-Inf"`:
			out[name] = math.Inf(-1)
		case "null":
			return fmt.Errorf("value of %q is null: expected a number", name)
		default:
			var x float64
			if err := json.Unmarshal(text, &x); err != nil {
				return fmt.Errorf("value of %q is not a number: %s", name, text)
			}
			out[name] = x
		}
	}
	*v = out
	return nil
}

// ReadMetricsFile reads the lines of one metrics.jsonl. A torn last line is skipped, a missing file is empty.
func ReadMetricsFile(path string) ([]MetricsLine, error) {
	var lines []MetricsLine
	err := readLines(path, func(_ int, data []byte) error {
		var l MetricsLine
		if err := decodeLine(data, &l); err != nil {
			return err
		}
		lines = append(lines, l)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return lines, err
}

// ReadMetrics reads the metrics of a run as if it had never been interrupted: of each attempt the lines up to the step
// from which the next one resumed.
func ReadMetrics(run Run) ([]MetricsLine, error) {
	attempts, err := run.Attempts()
	if err != nil {
		return nil, err
	}
	var lines []MetricsLine
	for _, a := range attempts {
		info, err := a.Info()
		if err != nil {
			return nil, err
		}
		lines = keep(lines, func(l MetricsLine) bool { return l.Step <= info.ResumedStep && info.Resumed() })
		own, err := ReadMetricsFile(a.MetricsPath())
		if err != nil {
			return nil, err
		}
		lines = append(lines, own...)
	}
	return lines, nil
}

func keep[T any](in []T, ok func(T) bool) []T {
	var out []T
	for _, x := range in {
		if ok(x) {
			out = append(out, x)
		}
	}
	return out
}
