package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/evaluation"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// evaluated is an evaluation at some step.
type evaluated struct {
	step      int
	metrics   map[string]float64
	questions []record.QuestionResult
	episodes  []*rollout.Episode
}

// evaluateDue carries out the evaluations that are due at the present step, records them as metrics, and keeps the
// best step where the run selects by one.
func (r *runner) evaluateDue(ctx context.Context) error {
	r.weightsOf = r.state.stage()
	for _, e := range r.config.Evaluations {
		if e.Every <= 0 || r.state.Global%e.Every != 0 {
			continue
		}
		done, err := r.evaluate(ctx, e)
		if err != nil {
			return fmt.Errorf("evaluation %q at step %d: %w", e.Name, r.state.Global, err)
		}
		r.evals[e.Name] = done
		values := map[string]float64{}
		for name, v := range done.metrics {
			values["eval/"+e.Name+"/"+name] = v
		}
		if err := r.sink.Log(r.state.Global, values); err != nil {
			return err
		}
		sel := r.config.Checkpoint.Select
		if v, ok := done.metrics[sel.Metric]; ok && sel.Kind == "best" && sel.Evaluation == e.Name && r.state.Global > 0 {
			if r.state.BestStep == 0 || v > r.state.BestValue {
				r.state.BestStep, r.state.BestValue = r.state.Global, v
			}
		}
	}
	return nil
}

// evaluate asks the policy all questions of an evaluation.
func (r *runner) evaluate(ctx context.Context, e *experiment.Evaluation) (evaluated, error) {
	none := evaluated{}
	data, err := r.resources.questions(ctx, e.Dataset, e.Tools)
	if err != nil {
		return none, err
	}
	if data.Endless() {
		return none, fmt.Errorf("%s: a stream without a limit cannot be evaluated", e.Dataset.Handle)
	}
	dispatch, err := r.dispatcher(ctx, e.Tools)
	if err != nil {
		return none, err
	}
	agent, err := agent(e.Agent, dispatch.descriptions())
	if err != nil {
		return none, err
	}
	order, err := positions(data, e.Dataset.Hops)
	if err != nil {
		return none, err
	}
	m, err := r.models.get(ctx, roleOf(e.Policy))
	if err != nil {
		return none, err
	}
	key := rng.New(uint64(r.config.Seed)).WithString("evaluation").WithString(e.Name)
	notes, err := r.annotationsOf(r.weightsOf)
	if err != nil {
		return none, err
	}
	var jobs []rollout.Job
	asked := map[string]episode.Question{}
	for _, i := range order {
		q, err := data.At(i)
		if err != nil {
			return none, err
		}
		q = notes.add(q)
		asked[q.ID] = q
		for sample := range max(1, e.Samples) {
			jobs = append(jobs, rollout.Job{
				ID: fmt.Sprintf("%s.%s.%d", e.Name, q.ID, sample), Question: q, Agent: agent, Sampling: sampling(e.Sampling),
				Key: key.WithString(q.ID).With(uint64(sample)),
			})
		}
	}
	// Budgets are about training: how often a run is evaluated must not change them.
	before := r.decoded.Load()
	defer func() { r.decoded.Store(before) }()
	done := evaluated{step: r.state.Global}
	for chunk := range slices.Chunk(jobs, m.rows) {
		r.report("evaluating "+e.Name, len(done.episodes), len(jobs))
		episodes, err := r.roll(ctx, m, dispatch, chunk)
		if err != nil {
			return none, err
		}
		done.episodes = append(done.episodes, episodes...)
	}
	if e.AnswerWith != nil {
		if err := r.answerWith(ctx, e, jobs, done.episodes); err != nil {
			return none, err
		}
	}
	if done.metrics, done.questions, err = measure(done.episodes, asked); err != nil {
		return none, err
	}
	if r.Progress != nil {
		r.Progress(Progress{Phase: Evaluated + " " + e.Name, Step: r.state.Global, Of: r.steps(), Metrics: done.metrics})
	}
	return done, nil
}

// measure scores episodes and averages the samples of each question.
func measure(episodes []*rollout.Episode, asked map[string]episode.Question) (map[string]float64, []record.QuestionResult, error) {
	var records []evaluation.Record
	byQuestion := map[string][]evaluation.Record{}
	answers := map[string]string{}
	for _, ep := range episodes {
		rec, err := evaluation.Score(asked[ep.QuestionID], ep.Episode, evaluation.RuleHotpot)
		if err != nil {
			return nil, nil, err
		}
		records = append(records, rec)
		if byQuestion[ep.QuestionID] == nil && ep.Answer != nil {
			answers[ep.QuestionID] = *ep.Answer
		}
		byQuestion[ep.QuestionID] = append(byQuestion[ep.QuestionID], rec)
	}
	var list []record.QuestionResult
	for _, id := range sorted(byQuestion) {
		sums, counts := map[string]float64{}, map[string]float64{}
		for _, rec := range byQuestion[id] {
			for name, v := range rec.Values {
				sums[name] += v
				counts[name]++
			}
		}
		for name := range sums {
			sums[name] /= counts[name]
		}
		list = append(list, record.QuestionResult{
			ID: id, Gold: goldDigest(asked[id]), Hops: asked[id].Hops, Answer: answers[id], Values: sums,
		})
	}
	return evaluation.Aggregate(records), list, nil
}

// goldDigest identifies what counts as right for a question.
func goldDigest(q episode.Question) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", q.Answers)
	for _, g := range q.Gold {
		fmt.Fprintf(sum, "%q", g.Title)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// finish selects the checkpoint, evaluates it and writes the result.
func (r *runner) finish(ctx context.Context) (record.Result, error) {
	result := record.Result{
		Run: r.ID, Status: record.Done, Arm: r.config.Arm, Axes: r.config.Axes, Cell: r.Cell, Seed: r.config.Seed,
		EpisodesDigest: r.state.EpisodesDigest, Attempts: r.attempt.N, ResumedInexact: r.state.Inexact,
	}
	if r.state.StoppedBy != "" {
		result.Status = record.StoppedByGuard
	}
	from, err := r.selectCheckpoint(ctx, &result)
	if err != nil {
		return result, err
	}
	if result.Checkpoint.Digest, err = r.weightsDigest(from, mainRole); err != nil {
		return result, err
	}
	if result.Checkpoint.Policies, err = r.weightDigests(from); err != nil {
		return result, err
	}
	values := map[string]float64{}
	for _, e := range r.config.Evaluations {
		done, ok := r.evals[e.Name]
		if !ok || done.step != result.Checkpoint.Step {
			if done, err = r.evaluate(ctx, e); err != nil {
				return result, fmt.Errorf("evaluation %q: %w", e.Name, err)
			}
			for name, v := range done.metrics {
				values["eval/"+e.Name+"/"+name] = v
			}
		}
		saved, err := r.saveEvaluation(ctx, e, done, result.Checkpoint)
		if err != nil {
			return result, err
		}
		result.Evaluations = append(result.Evaluations, saved)
	}
	if len(values) > 0 {
		if err := r.sink.Log(result.Checkpoint.Step, values); err != nil {
			return result, err
		}
	}
	r.state.Budgets.DecodedTokens = r.decoded.Load()
	for _, p := range r.state.Artefacts {
		if p.Attempt > 0 {
			result.Artefacts = append(result.Artefacts, record.Artefact{Name: p.Name, Kind: p.Kind, Items: p.Items, Digest: p.Digest, Attempt: p.Attempt})
		}
	}
	r.spend()
	result.Budgets, result.Warnings, result.Finished = r.state.Budgets, slices.Concat(r.noticed(), r.state.Warnings, r.unwatched()), time.Now().UTC()
	return result, r.Dir.WriteResult(result)
}

// selectCheckpoint loads the weights that the final figures come from, if they are not the last ones. It gives their
// checkpoint, nil for a run without stages.
func (r *runner) selectCheckpoint(ctx context.Context, result *record.Result) (*record.Checkpoint, error) {
	result.Checkpoint = record.CheckpointRef{Attempt: r.attempt.N, Step: r.state.Global}
	r.weightsOf = r.state.stage()
	if r.config.Checkpoint.Select.Kind == "best" && r.state.BestStep > 0 {
		result.Checkpoint.Step = r.state.BestStep
	}
	if len(r.config.Stages) == 0 {
		return nil, nil
	}
	checkpoints, err := r.Dir.Checkpoints()
	if err != nil {
		return nil, err
	}
	for _, c := range checkpoints {
		if c.Step != result.Checkpoint.Step {
			continue
		}
		result.Checkpoint.Attempt = c.Attempt
		if c.Step == r.state.Global {
			return &c, nil
		}
		var then state
		if err := record.ReadJSON(join(c.Dir, "state.json"), &then); err != nil {
			return nil, err
		}
		r.weightsOf = then.stage()
		for _, role := range r.trainedRoles() {
			m, err := r.models.get(ctx, role)
			if err != nil {
				return nil, err
			}
			if err := m.LoadWeights(ctx, weightsIn(c.Dir, role)); err != nil {
				return nil, err
			}
		}
		return &c, nil
	}
	return nil, fmt.Errorf("the checkpoint of step %d is gone", result.Checkpoint.Step)
}

// saveEvaluation writes the records and the episodes of an evaluation.
func (r *runner) saveEvaluation(ctx context.Context, e *experiment.Evaluation, done evaluated, from record.CheckpointRef) (record.Evaluation, error) {
	data, err := r.resources.questions(ctx, e.Dataset, e.Tools)
	if err != nil {
		return record.Evaluation{}, err
	}
	key, err := e.Key(r.config, from.Weights(roleOf(e.Policy)))
	if err != nil {
		return record.Evaluation{}, err
	}
	asked := make([]record.QuestionResult, len(done.questions))
	for i, q := range done.questions {
		asked[i] = q
		asked[i].Values = chosen(q.Values, e.Metrics)
	}
	path, err := r.Dir.WriteQuestions(e.Name, asked)
	if err != nil {
		return record.Evaluation{}, err
	}
	dir := join(r.Dir.Dir, "evaluations", e.Name)
	if _, err := writeEpisodes(dir, 0, "evaluation "+e.Name, done.episodes, nil, nil); err != nil {
		return record.Evaluation{}, err
	}
	return record.Evaluation{
		Name: e.Name, Key: key, DatasetDigest: data.digest, N: len(done.questions),
		Metrics: chosen(done.metrics, e.Metrics), Questions: path,
	}, nil
}

// chosen keeps the metrics that an evaluation names, with their means per number of hops.
func chosen(values map[string]float64, names []string) map[string]float64 {
	kept := map[string]float64{}
	for name, v := range values {
		base, _, _ := strings.Cut(name, "_hop")
		if slices.Contains(names, base) {
			kept[name] = v
		}
	}
	return kept
}

// episodeMetrics are the means over the episodes that a step sampled from the stage's policy. Continuations that the
// algorithm threw away count too: they were sampled.
func episodeMetrics(st *step, resp sdk.StepResponse) (map[string]float64, error) {
	own := slices.DeleteFunc(st.sampled(), func(ep *rollout.Episode) bool { return st.made[ep.ID].model != st.stage.model })
	values := map[string]float64{"episode/count": float64(len(own))}
	if len(own) == 0 {
		return values, nil
	}
	var records []evaluation.Record
	sums := map[string]float64{}
	names := st.stage.self.agent.Tools
	if len(names) < 2 {
		names = nil // the calls of one tool are the searches
	}
	for _, name := range names {
		sums["episode/calls/"+name] = 0
	}
	for _, ep := range own {
		for _, turn := range ep.Turns {
			if turn.Executed && turn.Action == episode.ActionCall && slices.Contains(names, turn.Tool) {
				sums["episode/calls/"+turn.Tool]++
			}
		}
		rec, err := evaluation.Score(st.questions[ep.QuestionID].Question, ep.Episode, evaluation.RuleHotpot)
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
		used := ep.Rewards.Total
		if u, ok := resp.UsedRewards[ep.ID]; ok {
			used = u.Value
		}
		sums["episode/reward"] += ep.Rewards.Total
		sums["episode/used_reward"] += used
		sums["episode/stop_"+string(ep.Stop)]++
		for name, leaf := range ep.Rewards.Leaves {
			sums["reward/"+name] += leaf.Value
		}
	}
	for name, sum := range sums {
		values[name] = sum / float64(len(own))
	}
	aggregated := evaluation.Aggregate(records)
	for _, name := range slices.Sorted(maps.Keys(aggregated)) {
		if name != "episodes" && name != "questions" && !strings.Contains(name, "_hop") {
			values["episode/"+name] = aggregated[name]
		}
	}
	return values, nil
}
