package policy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

// k steps, save, load into a new policy and trainer, and the rest: the same weights as all steps in one go, bit for
// bit.
func TestResumeBitForBit(t *testing.T) {
	config := OptimizerConfig{LearningRate: 1e-3, WeightDecay: .01, ClipNorm: 1, Schedule: Schedule{Kind: ScheduleCosine, Warmup: 2, Total: 6}}
	base, dir := t.TempDir(), t.TempDir()
	start := newTiny(t, tiny())
	if err := start.Save(t.Context(), base, "float32"); err != nil {
		t.Fatal(err)
	}
	open := func() (*Policy, *Trainer) {
		p, err := Load(t.Context(), base, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := p.Snapshot(); err != nil {
			t.Fatal(err)
		}
		return p, newTrainer(t, p, config)
	}
	steps := func(tr *Trainer, from, to int) {
		for i := from; i < to; i++ {
			samples := randomSamples(rng.New(uint64(i)), 10, 60)
			update(t, tr, UpdateSpec{Objective: grpo(t), Samples: samples, MiniBatches: [][]int{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}}})
		}
	}
	whole, tr := open()
	steps(tr, 0, 6)

	_, tr = open()
	steps(tr, 0, 3)
	if err := tr.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	resumed, tr := open()
	if err := tr.LoadState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if tr.Steps() != 6 || tr.Updates() != 3 {
		t.Fatalf("resumed at %d steps, %d updates", tr.Steps(), tr.Updates())
	}
	steps(tr, 3, 6)
	a, b := weightsOf(t, whole), weightsOf(t, resumed)
	for i := range a {
		if !slices.Equal(a[i], b[i]) {
			t.Fatalf("tensor %s differs by %v after resuming", whole.model.layout.specs[i].name, furthest(a, b))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tr.LoadState(t.Context(), dir); err == nil {
		t.Error("a broken state is taken up")
	}
}

func TestSaveAndLoad(t *testing.T) {
	for name, config := range variants() {
		p := newTiny(t, config)
		dir := t.TempDir()
		if err := p.Save(t.Context(), dir, "float32"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		q, err := Load(t.Context(), dir, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The folder may go while the policy lives: checkpoints are pruned.
		if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
			t.Fatal(err)
		}
		if d := furthest(weightsOf(t, p), weightsOf(t, q)); d != 0 {
			t.Errorf("%s: weights differ by %v", name, d)
		}
		again := t.TempDir()
		if err := q.Save(t.Context(), again, "bfloat16"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(again, "tokenizer.json")); err != nil {
			t.Errorf("%s: the tokenizer was not copied: %v", name, err)
		}
		half, err := Load(t.Context(), again, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := furthest(weightsOf(t, p), weightsOf(t, half)); d == 0 || d > 1./256 {
			t.Errorf("%s: bfloat16 weights differ by %v", name, d)
		}
		for _, p := range []*Policy{q, half} {
			if err := p.LoadReference(t.Context(), dir); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// New settings keep the optimizer's state, begin the schedule anew, and survive saving.
func TestReconfigureAndReload(t *testing.T) {
	samples := randomSamples(rng.New(2), 6, 40)
	warm := OptimizerConfig{LearningRate: 1e-2, Schedule: Schedule{Warmup: 4, PerOptimizerStep: true}}
	p := newTiny(t, tiny())
	base, dir := t.TempDir(), t.TempDir()
	if err := p.Save(t.Context(), base, "float32"); err != nil {
		t.Fatal(err)
	}
	before := weightsOf(t, p)
	tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2})
	for range 3 {
		update(t, tr, UpdateSpec{Objective: nll(t), Samples: samples})
	}
	if err := tr.Reconfigure(OptimizerConfig{LearningRate: -1}); err == nil {
		t.Error("a negative rate is accepted")
	}
	if err := tr.Reconfigure(warm); err != nil {
		t.Fatal(err)
	}
	if m := update(t, tr, UpdateSpec{Objective: nll(t), Samples: samples}); m.LearningRate != 1e-2/4 {
		t.Errorf("first rate of the new schedule is %v", m.LearningRate)
	}
	if err := tr.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	other := newTrainer(t, p, warm)
	if err := other.LoadState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if m := update(t, other, UpdateSpec{Objective: nll(t), Samples: samples}); m.LearningRate != 2*1e-2/4 || other.Steps() != 5 {
		t.Errorf("rate %v after %d steps", m.LearningRate, other.Steps())
	}
	if err := p.LoadWeights(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if d := furthest(before, weightsOf(t, p)); d != 0 {
		t.Errorf("reloaded weights differ by %v", d)
	}
	grouped := tiny()
	grouped.KVHeads = 2
	if err := newTiny(t, grouped).LoadWeights(t.Context(), base); err == nil {
		t.Error("weights of another architecture are accepted")
	}
}
