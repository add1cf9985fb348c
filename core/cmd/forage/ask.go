package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// askFlags choose who answers, and how.
type askFlags struct {
	study   studyFlags
	run     string
	arm     string
	seed    int64
	greedy  bool
	asJSON  bool
	backend string
}

func (a *app) askCommand() *cobra.Command {
	var f askFlags
	c := &cobra.Command{
		Use:   "ask PATH|RUN QUESTION",
		Short: "Ask one question and show the episode",
		Long: `Run one episode with the agent and the tools of a study and print it. The policy is
the one that the study starts from, or with --run, or a run in place of PATH, the
one that the run has trained. Nothing is recorded.`,
		Example: `  forage ask experiments/minihop "what is Frostlight 's setting 's country ?" --ablation demo
  forage ask 48553646d9e8 "what is Frostlight 's setting 's country ?" --greedy`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[1]) == "" {
				return misuse("the question is empty")
			}
			return a.ask(cmd.Context(), args[0], args[1], &f, cmd.Flags().Changed("seed"))
		},
	}
	f.study.add(c)
	flags := c.Flags()
	flags.StringVar(&f.run, "run", "", "answer with the policy that this `run` has trained")
	flags.StringVar(&f.arm, "arm", "", "agent and tools of this `arm` (default: the first)")
	flags.Int64Var(&f.seed, "seed", 0, "`seed` of the study's run, and of what is sampled (default: the study's first)")
	flags.BoolVar(&f.greedy, "greedy", false, "take the most likely token in place of sampling")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	flags.StringVar(&f.backend, "backend", "", "what to compute on: go, or xla:/path/of/plugin.so")
	return c
}

func (a *app) ask(ctx context.Context, path, text string, f *askFlags, seeded bool) error {
	s, config, from, err := a.asked(ctx, path, f, seeded)
	if err != nil {
		return err
	}
	defer s.Close()
	if f.backend == "" {
		f.backend = config.Runtime.Backend
	}
	backend, err := policy.OpenBackend(f.backend)
	if err != nil {
		return err
	}
	defer backend.Close()
	sum := sha256.Sum256([]byte(text))
	o := run.AskOptions{
		Config: config, Catalogue: s.catalogue, CacheDir: a.cacheDir, Backend: backend, Checkpoint: from, Seed: config.Seed,
		Question: episode.Question{ID: "asked-" + hex.EncodeToString(sum[:4]), Text: text}, Logger: a.logger(a.err),
	}
	if f.greedy {
		o.Sampling = &sdk.Sampling{Greedy: true, Temperature: 1}
	}
	e, err := run.Ask(ctx, o)
	if err != nil {
		return err
	}
	if lost := unknownWords(text, e); len(lost) > 0 {
		a.warn("the policy's vocabulary lacks %s: the prompt holds other words in their place", strings.Join(lost, ", "))
	}
	if f.asJSON {
		return a.writeJSON(e)
	}
	writeEpisode(a.out, e, "", nil)
	return nil
}

// unknownWords lists the words of a question that its prompt has not kept. A vocabulary of whole words loses those that
// it does not hold. Nothing is said where no word is kept: then the agent's template may not show the question at all.
func unknownWords(question string, e episode.Episode) []string {
	if len(e.Sequences) == 0 {
		return nil
	}
	prompt := e.Sequences[0].Prompt
	words := strings.Fields(question)
	lost := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(prompt, w) })
	if len(lost) == len(words) {
		return nil
	}
	return lost
}

// asked finds the configuration that a question is asked with, and the state that answers; nil for the policy that the
// study starts from.
func (a *app) asked(ctx context.Context, path string, f *askFlags, seeded bool) (*opened, *experiment.Run, *record.Checkpoint, error) {
	var from *record.Checkpoint
	if f.run == "" {
		if r, err := a.findRun(path); err == nil {
			if from, err = trained(r); err != nil {
				return nil, nil, nil, err
			}
			s, config, err := a.configOf(ctx, r)
			return s, config, from, err
		}
	}
	s, p, err := a.openPlan(ctx, path, &f.study)
	if err != nil {
		return nil, nil, nil, err
	}
	chosen, err := runOf(p, f.arm, f.seed, !seeded)
	if err == nil && f.run != "" {
		var r record.Run
		if r, err = a.findRun(f.run); err == nil {
			from, err = trained(r)
		}
		// The world of the run, where it is one of the study's.
		if i := slices.IndexFunc(p.Runs, func(have plan.Run) bool { return have.ID == r.ID }); err == nil && i >= 0 {
			chosen = p.Runs[i]
		}
	}
	if err != nil {
		s.Close()
		return nil, nil, nil, err
	}
	return s, chosen.Config, from, nil
}

// trained is the state of a run that its figures come from, or the newest one of a run that is not finished.
func trained(r record.Run) (*record.Checkpoint, error) {
	res, ok, err := r.ReadResult()
	if err != nil {
		return nil, err
	}
	if ok {
		return run.SelectedCheckpoint(r, res)
	}
	latest, ok, err := r.LatestCheckpoint()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("run %s has no checkpoint yet", r.ID)
	}
	return &latest, nil
}
