package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Recorded is one line of an episode file.
type Recorded struct {
	Step  int    `json:"step"` // training step (over all stages) that sampled it, from 1
	Stage string `json:"stage"`
	// Policy and Agent sampled it where the stage's own did not.
	Policy string `json:"policy,omitempty"`
	Agent  string `json:"agent,omitempty"`
	episode.Episode
	// UsedReward is the reward behind its advantage where that is not rewards.total.
	UsedReward *float64 `json:"used_reward,omitempty"`
	// AnsweredBy is set where another policy wrote the answer from what the episode found.
	AnsweredBy *rollout.AnsweredBy `json:"answered_by,omitempty"`
	// Tokens and LogProbs are per sequence; null for a policy behind an endpoint, which tells only the text.
	Tokens   [][]int32   `json:"tokens"`
	LogProbs [][]float32 `json:"log_probs"`
}

func episodeFile(dir string, step int) string {
	return filepath.Join(dir, fmt.Sprintf("step-%06d.jsonl.zst", step))
}

// writeEpisodes writes the episodes of a step and gives the digest of what does not depend on the clock. by, if not nil,
// says what policy and agent sampled an episode, "" for the stage's own.
func writeEpisodes(dir string, step int, stage string, episodes []*rollout.Episode, used map[string]sdk.UsedReward, by func(id string) (policy, agent string)) (string, error) {
	var file bytes.Buffer
	z, err := zstd.NewWriter(&file)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, ep := range episodes {
		line := Recorded{Step: step, Stage: stage, Episode: ep.Episode, Tokens: ep.Tokens, LogProbs: ep.LogProbs, AnsweredBy: ep.AnsweredBy}
		var told any = ep.Tokens
		if ep.TextOnly {
			line.Tokens, line.LogProbs, told = nil, nil, ep.Sequences
		}
		if by != nil {
			line.Policy, line.Agent = by(ep.ID)
		}
		if u, ok := used[ep.ID]; ok {
			line.UsedReward = &u.Value
		}
		if err := json.NewEncoder(z).Encode(line); err != nil {
			return "", fmt.Errorf("episode %s: %w", ep.ID, err)
		}
		if err := json.NewEncoder(sum).Encode([]any{ep.ID, told, line.LogProbs, ep.Rewards, line.UsedReward}); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), record.WriteFile(episodeFile(dir, step), file.Bytes())
}

// ReadEpisodes reads the episodes of a training step of a run, of the attempt that counts. No file is an error that
// wraps fs.ErrNotExist.
func ReadEpisodes(dir record.Run, step int) ([]Recorded, error) {
	attempt, ok, err := dir.AttemptOf(step)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("run %s has no episodes of step %d: %w", dir.ID, step, os.ErrNotExist)
	}
	path := episodeFile(attempt.EpisodesDir(), step)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("episodes of step %d of run %s: %w", step, dir.ID, err)
	}
	return readEpisodes(file, path)
}

// ReadEvaluationEpisodes reads the episodes of an evaluation at the checkpoint that the run's figures come from. No file
// is an error that wraps fs.ErrNotExist.
func ReadEvaluationEpisodes(dir record.Run, evaluation string) ([]Recorded, error) {
	path := episodeFile(filepath.Join(dir.Dir, "evaluations", evaluation), 0)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("episodes of evaluation %q of run %s: %w", evaluation, dir.ID, err)
	}
	return readEpisodes(file, path)
}

// readEpisodes reads and closes a file of episodes.
func readEpisodes(file io.ReadCloser, path string) ([]Recorded, error) {
	defer file.Close()
	z, err := zstd.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer z.Close()
	var list []Recorded
	for dec := json.NewDecoder(z); ; {
		var line Recorded
		if err := dec.Decode(&line); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: episode %d: %w", path, len(list)+1, err)
		}
		list = append(list, line)
	}
}

// Steps lists the training steps of a run that have recorded episodes, in order.
func Steps(dir record.Run) ([]int, error) {
	attempts, err := dir.Attempts()
	if err != nil {
		return nil, err
	}
	have := map[int]bool{}
	for _, a := range attempts {
		info, err := a.Info()
		if err != nil {
			return nil, err
		}
		for step := range have {
			if info.Resumed() && step > info.ResumedStep || !info.Resumed() {
				delete(have, step)
			}
		}
		files, err := filepath.Glob(filepath.Join(a.EpisodesDir(), "step-*.jsonl.zst"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			var step int
			if _, err := fmt.Sscanf(filepath.Base(f), "step-%d.jsonl.zst", &step); err == nil {
				have[step] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(have)), nil
}
