package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
)

// MissingEvaluations lists the evaluations of a configuration that the result of a finished run does not hold: those
// that were added or changed since.
func MissingEvaluations(config *experiment.Run, result record.Result) ([]string, error) {
	var missing []string
	for _, e := range config.Evaluations {
		key, err := e.Key(config, result.Checkpoint.Weights(roleOf(e.Policy)))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(result.Evaluations, func(have record.Evaluation) bool { return have.Name == e.Name && have.Key == key }) {
			missing = append(missing, e.Name)
		}
	}
	return missing, nil
}

// Reevaluate carries out what MissingEvaluations lists, at the checkpoint that the run selected, and adds it to the
// run's result. It trains nothing. The names of the new evaluations are given too.
func Reevaluate(ctx context.Context, o Options) (result record.Result, added []string, err error) {
	lock, err := record.Lock(o.Dir.LockPath())
	if err != nil {
		return result, nil, fmt.Errorf("run %s: %w", o.ID, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	r := newRunner(o)
	defer func() { err = errors.Join(err, r.close()) }()
	if result, added, err = r.reevaluate(ctx); err != nil {
		return result, nil, fmt.Errorf("run %s: %w", o.ID, err)
	}
	return result, added, nil
}

func (r *runner) reevaluate(ctx context.Context) (record.Result, []string, error) {
	result, ok, err := r.Dir.ReadResult()
	if err != nil {
		return result, nil, err
	}
	if !ok {
		return result, nil, errors.New("it is not finished, so there is nothing to evaluate; run the study first")
	}
	missing, err := MissingEvaluations(r.config, result)
	if err != nil || len(missing) == 0 {
		return result, nil, err
	}
	from, err := SelectedCheckpoint(r.Dir, result)
	if err != nil {
		return result, nil, err
	}
	if err := r.openPolicy(ctx, from); err != nil {
		return result, nil, err
	}
	if err := r.sameResources(); err != nil {
		return result, nil, err
	}
	digest, err := r.weightsDigest(from, mainRole)
	if err != nil {
		return result, nil, err
	}
	if digest != result.Checkpoint.Digest {
		return result, nil, fmt.Errorf("the weights of policy main are not those that were evaluated before (digest %.12s, now %.12s); start the run afresh with --fresh", result.Checkpoint.Digest, digest)
	}
	if result.Checkpoint.Policies, err = r.weightDigests(from); err != nil {
		return result, nil, err
	}
	r.weightsOf = r.state.stage()
	began := time.Now()
	for _, e := range r.config.Evaluations {
		if !slices.Contains(missing, e.Name) {
			continue
		}
		done, err := r.evaluate(ctx, e)
		if err != nil {
			return result, nil, fmt.Errorf("evaluation %q: %w", e.Name, err)
		}
		saved, err := r.saveEvaluation(ctx, e, done, result.Checkpoint)
		if err != nil {
			return result, nil, err
		}
		result.Evaluations = slices.DeleteFunc(result.Evaluations, func(have record.Evaluation) bool { return have.Name == e.Name })
		result.Evaluations = append(result.Evaluations, saved)
	}
	result.Budgets.DecodedTokens += r.decoded.Load() - r.state.Budgets.DecodedTokens
	result.Budgets.WallSeconds += time.Since(began).Seconds()
	return result, missing, r.Dir.WriteResult(result)
}

// SelectedCheckpoint finds the state that the figures of a finished run come from; nil for a run that trained nothing.
func SelectedCheckpoint(dir record.Run, result record.Result) (*record.Checkpoint, error) {
	checkpoints, err := dir.Checkpoints()
	if err != nil {
		return nil, err
	}
	for _, c := range checkpoints {
		if c.Step == result.Checkpoint.Step && c.Attempt == result.Checkpoint.Attempt {
			return &c, nil
		}
	}
	if len(checkpoints) == 0 && result.Checkpoint.Step == 0 {
		return nil, nil
	}
	return nil, fmt.Errorf("the checkpoint of step %d of attempt %d is gone from %s", result.Checkpoint.Step, result.Checkpoint.Attempt, dir.Dir)
}

// sameResources refuses to evaluate where corpora or indexes are not what the run was trained and evaluated on before.
func (r *runner) sameResources() error {
	before, ok, err := r.Dir.ReadManifest()
	if err != nil || !ok || r.Accept {
		return err
	}
	var changes []record.Change
	for name, digest := range r.resources.digests() {
		old, known := before.Digests[name]
		if known && old != digest && !strings.HasPrefix(name, "dataset.") {
			changes = append(changes, record.Change{Name: name, Old: old, New: digest})
		}
	}
	if len(changes) > 0 {
		slices.SortFunc(changes, func(a, b record.Change) int { return strings.Compare(a.Name, b.Name) })
		return &StaleError{r.ID, changes}
	}
	return nil
}
