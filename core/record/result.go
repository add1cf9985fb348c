package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Result is result.json: what a finished run gives to the report. It appears only when the run is over.
type Result struct {
	Run    string            `json:"run"`
	Status Status            `json:"status"` // done or stopped_by_guard
	Arm    string            `json:"arm"`
	Axes   map[string]string `json:"axes,omitempty"` // axis name → value of this cell
	Cell   string            `json:"cell"`           // key of the cell: arm and axis values
	Seed   int64             `json:"seed"`

	Evaluations []Evaluation `json:"evaluations"`
	Budgets     Budgets      `json:"budgets"`

	Artefacts []Artefact `json:"artefacts,omitempty"` // that stages wrote for later ones

	Checkpoint     CheckpointRef `json:"checkpoint"`                // the one that was evaluated
	EpisodesDigest string        `json:"episodes_digest,omitempty"` // of the training episodes in order
	Attempts       int           `json:"attempts"`
	ResumedInexact bool          `json:"resumed_inexact,omitempty"` // resumed where equality bit for bit is not promised
	Warnings       []string      `json:"warnings,omitempty"`
	Finished       time.Time     `json:"finished"`
}

// Artefact is what a produce stage wrote: a file in [Attempt.ArtefactsDir] of an attempt.
type Artefact struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`  // episodes or table
	Items   int    `json:"items"` // episodes, or questions of the table
	Digest  string `json:"digest"`
	Attempt int    `json:"attempt"`
}

// CheckpointRef names a checkpoint of a run.
type CheckpointRef struct {
	Attempt int    `json:"attempt"`
	Step    int    `json:"step"`
	Digest  string `json:"digest,omitempty"` // of the weights of the policy main
	// Policies holds the digests of other policies that were evaluated, by role.
	Policies map[string]string `json:"policies,omitempty"`
}

// Weights is the digest of the weights of a role at the checkpoint, "" where it is not known.
func (c CheckpointRef) Weights(role string) string {
	if role == "" || role == "main" {
		return c.Digest
	}
	return c.Policies[role]
}

// Evaluation is the outcome of one evaluation at the selected checkpoint.
type Evaluation struct {
	Name          string `json:"name"`
	Key           string `json:"key,omitempty"`  // checkpoint digest × evaluation configuration
	DatasetDigest string `json:"dataset_digest"` // of the file or generated data
	N             int    `json:"n"`              // questions
	Metrics       Values `json:"metrics"`        // means over the questions
	// Questions is the path of the records per question, relative to the run's folder; see [Run.QuestionsPath].
	Questions string `json:"questions"`
}

// Budgets are what a run spent. Equal budgets make arms comparable.
type Budgets struct {
	SampledTokens  int64   `json:"sampled_tokens"` // policy tokens in episodes
	DecodedTokens  int64   `json:"decoded_tokens"` // tokens the sampler computed for training, prompts and observations included; evaluations are not counted
	TrainedTokens  int64   `json:"trained_tokens"` // tokens with a loss, times epochs, of policy and critic together
	ToolCalls      int64   `json:"tool_calls"`
	OptimizerSteps int64   `json:"optimizer_steps"`
	WallSeconds    float64 `json:"wall_seconds"` // over all attempts; of one that was killed, up to its last checkpoint
}

// Add gives the sum of two budgets.
func (b Budgets) Add(o Budgets) Budgets {
	return Budgets{
		SampledTokens:  b.SampledTokens + o.SampledTokens,
		DecodedTokens:  b.DecodedTokens + o.DecodedTokens,
		TrainedTokens:  b.TrainedTokens + o.TrainedTokens,
		ToolCalls:      b.ToolCalls + o.ToolCalls,
		OptimizerSteps: b.OptimizerSteps + o.OptimizerSteps,
		WallSeconds:    b.WallSeconds + o.WallSeconds,
	}
}

// Names of the values per question that the report knows. Evaluations may add others.
const (
	MetricEM                  = "em"
	MetricF1                  = "f1"
	MetricEvidenceAny         = "evidence_any"    // 1 where at least one gold passage was retrieved
	MetricEvidenceAll         = "evidence_all"    // 1 where every gold passage was retrieved
	MetricEvidenceRecall      = "evidence_recall" // share of the gold passages that were retrieved
	MetricSearches            = "searches"
	MetricUnnecessarySearches = "unnecessary_searches" // searches after all gold passages had been retrieved
	MetricPolicyTokens        = "policy_tokens"
)

// QuestionResult is one line of questions.jsonl: the outcome on one question, averaged over the evaluation's samples.
type QuestionResult struct {
	ID     string `json:"id"`
	Gold   string `json:"gold"`             // digest of the accepted answers and gold passages
	Hops   int    `json:"hops,omitempty"`   // 0 where the dataset does not say
	Answer string `json:"answer,omitempty"` // of the first sample
	Values Values `json:"values"`
}

// WriteQuestions writes the records of an evaluation in one step, sorted by id, and returns the path relative to the
// run's folder for [Evaluation.Questions]. Ids must be unique.
func (r Run) WriteQuestions(evaluation string, questions []QuestionResult) (string, error) {
	path, err := r.QuestionsPath(evaluation)
	if err != nil {
		return "", err
	}
	questions = slices.Clone(questions)
	slices.SortFunc(questions, func(a, b QuestionResult) int { return cmp.Compare(a.ID, b.ID) })
	var data []byte
	for i, q := range questions {
		if i > 0 && questions[i-1].ID == q.ID {
			return "", fmt.Errorf("write %s: question %q is there twice", path, q.ID)
		}
		line, err := marshalLine(q)
		if err != nil {
			return "", fmt.Errorf("write %s: question %q: %w", path, q.ID, err)
		}
		data = append(data, line...)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("write questions: %w", err)
	}
	if err := WriteFile(path, data); err != nil {
		return "", err
	}
	return filepath.Rel(r.Dir, path)
}

// ReadQuestions reads a questions.jsonl.
func ReadQuestions(path string) ([]QuestionResult, error) {
	var questions []QuestionResult
	seen := map[string]bool{}
	err := readLines(path, func(_ int, data []byte) error {
		var q QuestionResult
		if err := decodeLine(data, &q); err != nil {
			return err
		}
		if q.ID == "" {
			return errors.New("question without an id")
		}
		if seen[q.ID] {
			return fmt.Errorf("question %q is there twice", q.ID)
		}
		seen[q.ID] = true
		questions = append(questions, q)
		return nil
	})
	return questions, err
}

// WriteResult writes result.json in one step.
func (r Run) WriteResult(result Result) error { return WriteJSON(r.ResultPath(), result) }

// ReadResult reads result.json; ok is false where the run has none yet.
func (r Run) ReadResult() (result Result, ok bool, err error) {
	err = ReadJSON(r.ResultPath(), &result)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, false, nil
	}
	return result, err == nil, err
}

// RemoveResult takes result.json away, if there is one.
func (r Run) RemoveResult() error { return ignoreMissing(os.Remove(r.ResultPath())) }

// WriteManifest writes manifest.json in one step.
func (r Run) WriteManifest(m Manifest) error { return WriteJSON(r.ManifestPath(), m) }

// ReadManifest reads manifest.json; ok is false where the run has none yet.
func (r Run) ReadManifest() (m Manifest, ok bool, err error) {
	err = ReadJSON(r.ManifestPath(), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, false, nil
	}
	return m, err == nil, err
}
