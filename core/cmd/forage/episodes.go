package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// episodeFlags choose episodes of a run.
type episodeFlags struct {
	step       int
	question   string
	id         string
	evaluation string
	limit      int
	asJSON     bool
}

func (a *app) episodesCommand() *cobra.Command {
	f := episodeFlags{}
	c := &cobra.Command{
		Use:   "episodes RUN",
		Short: "Read the episodes of a run",
		Long: `Print episodes as a person reads them: what the policy wrote, what the tools
returned, the rewards by source, and why each episode ended. Without --step the
last training step is taken; with --evaluation the episodes of a final evaluation.`,
		Example: `  forage episodes 48553646d9e8 --step 40
  forage episodes 48553646d9e8 --evaluation test --question test-17
  forage episodes 48553646d9e8 --step 1 --json | jq .rewards.total`,
		Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := a.findRun(args[0])
			if err != nil {
				return err
			}
			return a.printEpisodes(r, &f)
		},
	}
	flags := c.Flags()
	flags.IntVar(&f.step, "step", 0, "training `step`, counted from 1 over all stages (default: the last)")
	flags.StringVar(&f.question, "question", "", "only those of the question with this `id`")
	flags.StringVar(&f.id, "id", "", "only the episode with this `id`")
	flags.StringVar(&f.evaluation, "evaluation", "", "episodes of the evaluation of this `name`")
	flags.IntVar(&f.limit, "limit", 3, "print at most this `many`, 0 for all; JSON is always all")
	flags.BoolVar(&f.asJSON, "json", false, "print a line of JSON per episode, tokens included")
	return c
}

func (a *app) printEpisodes(r record.Run, f *episodeFlags) error {
	list, err := readEpisodes(r, f)
	if err != nil {
		return err
	}
	all := len(list)
	list = slices.DeleteFunc(list, func(e run.Recorded) bool {
		return f.question != "" && e.QuestionID != f.question || f.id != "" && e.ID != f.id
	})
	if len(list) == 0 {
		var wanted []string
		if f.question != "" {
			wanted = append(wanted, fmt.Sprintf("is of question %q", f.question))
		}
		if f.id != "" {
			wanted = append(wanted, fmt.Sprintf("has the id %q", f.id))
		}
		return fmt.Errorf("none of the %d episodes %s", all, strings.Join(wanted, " and "))
	}
	chosen := len(list)
	if f.limit > 0 && !f.asJSON {
		list = list[:min(f.limit, chosen)]
	}
	for i, e := range list {
		if f.asJSON {
			data, err := jsonLine(e)
			if err != nil {
				return err
			}
			if _, err := a.out.Write(data); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		where := e.Stage
		if e.Step > 0 {
			where = fmt.Sprintf("step %d, stage %s", e.Step, e.Stage)
		}
		writeEpisode(a.out, e.Episode, where, e.UsedReward)
		if by := e.AnsweredBy; by != nil {
			own := "none"
			if by.PolicyAnswer != nil {
				own = strconv.Quote(*by.PolicyAnswer)
			}
			fmt.Fprintf(a.out, "answered by %s from %d hits (%d left out); the policy's own answer: %s\n", by.Policy, len(by.Evidence), by.Left, own)
			writeText(a.out, "written", printable(by.Text))
		}
	}
	if len(list) < chosen {
		fmt.Fprintf(a.out, "\n%d more; --limit 0 prints all, --question and --id choose.\n", chosen-len(list))
	}
	return nil
}

// readEpisodes reads the episodes that the flags choose by step or evaluation.
func readEpisodes(r record.Run, f *episodeFlags) ([]run.Recorded, error) {
	if f.evaluation != "" {
		list, err := run.ReadEvaluationEpisodes(r, f.evaluation)
		if errors.Is(err, fs.ErrNotExist) {
			res, err := result(r)
			if err != nil {
				return nil, err
			}
			var names []string
			for _, e := range res.Evaluations {
				names = append(names, e.Name)
			}
			return nil, fmt.Errorf("run %s has no evaluation %q; it has %s", r.ID, f.evaluation, strings.Join(names, ", "))
		}
		return list, err
	}
	steps, err := run.Steps(r)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("run %s has no recorded training episodes; try --evaluation NAME", r.ID)
	}
	step := f.step
	if step == 0 {
		step = steps[len(steps)-1]
	}
	if !slices.Contains(steps, step) {
		return nil, fmt.Errorf("run %s has no episodes of step %d; it has those of steps %d to %d", r.ID, step, steps[0], steps[len(steps)-1])
	}
	return run.ReadEpisodes(r, step)
}

// writeEpisode prints an episode for people.
func writeEpisode(out io.Writer, e episode.Episode, where string, used *float64) {
	w := &bytes.Buffer{}
	head := []string{"episode " + e.ID, "question " + e.QuestionID}
	if where != "" {
		head = append(head, where)
	}
	if e.Origin != episode.OriginPolicy {
		head = append(head, "origin "+string(e.Origin))
	}
	if e.Parent != nil {
		head = append(head, fmt.Sprintf("continues %s after turn %d", e.Parent.EpisodeID, e.Parent.AfterTurn+1))
	}
	fmt.Fprintf(w, "=== %s\n", strings.Join(head, " · "))
	for i, s := range e.Sequences {
		label := "prompt"
		if len(e.Sequences) > 1 {
			label = fmt.Sprintf("prompt %d", i+1)
		}
		writeText(w, label, s.Prompt)
	}
	for i, t := range e.Turns {
		writeTurn(w, i+1, t)
	}
	if e.Answer != nil {
		fmt.Fprintf(w, "answer: %q\n", *e.Answer)
	} else {
		fmt.Fprintln(w, "answer: none")
	}
	fmt.Fprintf(w, "stop: %s; %d turns, %d searches, %d policy tokens, %d observation tokens\n",
		e.Stop, e.Counters.Turns, e.Counters.Searches, e.Counters.PolicyTokens, e.Counters.ObservationTokens)
	writeRewards(w, e.Rewards, used)
	io.WriteString(out, printable(w.String()))
}

func writeTurn(w io.Writer, number int, t episode.Turn) {
	writeText(w, fmt.Sprintf("%d policy", number), t.Text)
	switch t.Action {
	case episode.ActionCall:
		executed := ""
		if !t.Executed {
			executed = " (not carried out)"
		}
		fmt.Fprintf(w, "    call %s %s%s\n", t.Tool, compactJSON(t.Arguments), executed)
	case episode.ActionInvalid, episode.ActionNone:
		fmt.Fprintf(w, "    no action: %s\n", t.Action)
	}
	for i, h := range t.Hits {
		fmt.Fprintf(w, "    hit %d  %.4f  %s  %s\n", i+1, h.Score, h.Unit(), h.Title)
	}
	if t.Error != "" {
		fmt.Fprintf(w, "    tool error: %s\n", t.Error)
	}
	if t.Observation != "" {
		writeText(w, "  observation", t.Observation)
	}
}

func writeRewards(w io.Writer, r episode.Rewards, used *float64) {
	if len(r.Leaves) == 0 && used == nil {
		return // nobody scored it
	}
	fmt.Fprintf(w, "reward: %.4g", r.Total)
	if used != nil {
		fmt.Fprintf(w, " (trained on %.4g)", *used)
	}
	fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(r.Leaves)) {
		leaf := r.Leaves[name]
		fmt.Fprintf(w, "  %s %.4g", name, leaf.Value)
		for _, c := range slices.Sorted(maps.Keys(leaf.Components)) {
			fmt.Fprintf(w, "  %s=%.4g", c, leaf.Components[c])
		}
		if len(leaf.Turns) > 0 {
			fmt.Fprintf(w, "  turns %.3g", leaf.Turns)
		}
		fmt.Fprintln(w)
	}
	if len(r.TurnTotals) > 0 {
		fmt.Fprintf(w, "  by turn %.3g\n", r.TurnTotals)
	}
}

// writeText prints a text under a label, further lines indented alike.
func writeText(w io.Writer, label, text string) {
	fmt.Fprintf(w, "%s: %s\n", label, strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    "))
}
