package policy

import (
	"context"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/sdk/objective"
)

// step takes one optimizer step on a mini-batch, which may be the first of the update.
func (u *updating) step(ctx context.Context, batch []int, first bool, m *UpdateMetrics) error {
	trained := 0
	for _, i := range batch {
		trained += len(u.positions[i])
	}
	if trained == 0 {
		m.EmptySteps++
		m.SkippedRows += len(batch)
		return nil
	}
	weights, err := u.p.acquire()
	if err != nil {
		return err
	}
	defer func() {
		_ = weights.release() // frees what the step replaced; a failure there leaves nothing to undo
	}()
	result, grads, processed, err := u.gradient(ctx, weights, batch, first)
	if err != nil {
		return err
	}
	norm, err := u.norm(grads)
	if err == nil && !finite(norm) {
		err = u.nonFinite(ctx, weights, batch, first, m.Steps, "gradient")
	} else if err == nil && !finite(result.Loss) {
		err = u.nonFinite(ctx, weights, batch, first, m.Steps, "loss")
	}
	if err != nil {
		_ = finalize(grads...) // the first error is the one to report
		return err
	}
	scale := 1.
	if clip := u.config.ClipNorm; clip > 0 && norm > clip {
		scale = clip / (norm + 1e-6)
		m.ClippedSteps++
	}
	rate := u.rate()
	if err := u.apply(weights, grads, scale, rate); err != nil {
		return err
	}
	m.Steps++
	m.Loss += result.Loss
	for name, v := range result.Metrics {
		m.Metrics[name] += v
	}
	m.GradNorm += norm
	m.MaxGradNorm = max(m.MaxGradNorm, norm)
	m.LearningRate = rate
	m.TrainedTokens += trained
	m.ProcessedTokens += processed
	m.SkippedRows += result.Skipped
	return nil
}

// gradient computes the objective on a mini-batch, and its gradient with respect to every weight.
func (u *updating) gradient(ctx context.Context, weights *weightSet, batch []int, first bool) (result objective.Result, grads []*tensors.Tensor, processed int, err error) {
	fail := func(err error) (objective.Result, []*tensors.Tensor, int, error) {
		_ = finalize(grads...) // the first error is the one to report
		return objective.Result{}, nil, 0, err
	}
	rows := make([]objective.Row, len(batch))
	positions := make([][]int32, len(batch))
	seqs := make([]Sequence, len(batch))
	list := make([]scored, len(batch))
	for k, i := range batch {
		rows[k], positions[k], seqs[k] = u.rows[i], u.positions[i], u.seqs[i]
		list[k] = scored{len(seqs[k].Tokens), len(positions[k])}
		for l, zeros := range u.zeros(i, len(u.leaves)) {
			*column(&rows[k], u.leaves[l]) = zeros
		}
	}
	lb := lossBatch{positions: positions}
	plan := u.plan
	if first {
		plan = u.first
	}
	if plan == nil {
		plan = u.linear
		if err := u.hostGradient(ctx, weights, batch, rows, &lb); err != nil {
			return fail(err)
		}
	} else {
		if lb.structure, err = newStructure(plan.o, plan.levels, rows); err != nil {
			return fail(err)
		}
		lb.weights = plan.coefficients(lb.structure)
	}
	for _, b := range split(list, u.p.bounds(u.spec.MicroTokens, true)) {
		if err := checkContext(ctx); err != nil {
			return fail(err)
		}
		lb.rows = b.samples
		lb.sizes = lossSizes{tokens: b.selected, rows: b.rows}
		if plan.usesLevel(objective.Turn) {
			lb.sizes.turns = roundUp(lb.structure.turnCount(b.samples), 4, u.p.backend.dearCompile)
		}
		flats, next, err := u.microBatch(weights, grads, plan, b, seqs, &lb)
		if err != nil {
			grads = nil // they were handed over
			return fail(err)
		}
		grads = next
		at := 0
		for _, k := range b.samples {
			processed += len(seqs[k].Tokens)
			for _, pos := range positions[k] {
				for l, op := range u.leaves {
					(*column(&rows[k], op))[pos] = flats[l][at]
				}
				at++
			}
		}
	}
	for recorded, live := range plan.live {
		for k, i := range batch {
			old := column(&rows[k], recorded)
			if *old == nil {
				*old = *column(&rows[k], live)
				*column(&u.rows[i], recorded) = *old
			}
		}
	}
	if result, err = objective.Eval(u.spec.Objective, objective.Batch{Rows: rows}); err != nil {
		return fail(err)
	}
	return result, grads, processed, nil
}

// hostGradient differentiates the objective on the host, from what the network reads, computed first: for objectives that
// combine groups or the whole mini-batch in more than a linear way.
func (u *updating) hostGradient(ctx context.Context, weights *weightSet, batch []int, rows []objective.Row, lb *lossBatch) error {
	at := make(map[int][]int, len(batch)) // a sample may occur twice in a mini-batch
	for k, i := range batch {
		at[i] = append(at[i], k)
	}
	samples := make([]int, 0, len(at))
	for k, i := range batch {
		if at[i][0] == k {
			samples = append(samples, i)
		}
	}
	if err := u.readRows(ctx, weights, samples, u.entropy, func(i int, read [][]float64) {
		for _, k := range at[i] {
			for l, op := range u.leaves {
				*column(&rows[k], op) = read[l]
			}
		}
	}); err != nil {
		return err
	}
	result, err := objective.Eval(u.spec.Objective, objective.Batch{Rows: rows})
	if err != nil {
		return err
	}
	s, err := newStructure(u.linear.o, u.linear.levels, rows)
	if err != nil {
		return err
	}
	lb.structure, lb.weights = s, map[int][]float64{}
	for t, op := range u.leaves {
		list := result.GradLogP
		switch op {
		case objective.OpEntropy:
			list = result.GradEntropy
		case objective.OpValue:
			list = result.GradValue
		}
		for _, row := range list {
			lb.weights[t] = append(lb.weights[t], row...)
		}
	}
	return nil
}

// microBatch adds the gradient of one micro-batch to grads (nil: there are none yet) and gives what the network reads at
// the selected positions.
func (u *updating) microBatch(weights *weightSet, grads []*tensors.Tensor, plan *lossPlan, b microBatch, seqs []Sequence, lb *lossBatch) (flats [][]float64, sum []*tensors.Tensor, err error) {
	p, first := u.p, 0
	if grads == nil {
		first = 1
	}
	key := programKey{kind: "train " + plan.id, sizes: [6]int{b.rows, b.length, b.selected, lb.sizes.turns, first}}
	g, err := p.programs.get(p.backend, key, func(g *Graph) []*Node {
		return p.model.train(g, plan, b, lb.sizes, first == 1, u.entropy)
	})
	if err != nil {
		return nil, nil, err
	}
	args := p.backend.arguments(g.NumParameters()).keep(weights.tensors...).donate(grads...)
	p.show(args, b, seqs, func(k int) []int32 { return lb.positions[k] }, u.spec.Temperature)
	plan.arguments(args, p.model.dtype, lb)
	out, err := args.run(g)
	if err != nil {
		return nil, nil, err
	}
	n := len(p.model.layout.specs)
	for _, t := range out[n:] {
		flat, err := downloadWide(t)
		if err != nil {
			return nil, nil, err
		}
		flats = append(flats, flat)
	}
	return flats, out[:n], finalize(out[n:]...)
}

// train builds the program of one micro-batch. Parameters: weights; unless first, the gradients so far; those of
// [model.read]; the loss's. Results: gradients, added up; what the network reads.
func (m *model) train(g *Graph, plan *lossPlan, b microBatch, sizes lossSizes, first, entropy bool) []*Node {
	weights := m.parameters(g)
	var sum []*Node
	if !first {
		sum = m.named(g, "gradient.")
	}
	read := m.read(g, weights, b, b.recompute, entropy)
	leaves := map[objective.Op]*Node{}
	for k, op := range m.leaves(entropy) {
		leaves[op] = read[k]
	}
	out := Gradient(plan.loss(g, m.dtype, sizes, leaves), weights...)
	for i := range sum {
		out[i] = Add(sum[i], out[i])
	}
	return append(out, read...)
}

// norm is the L2 norm of all gradients together.
func (u *updating) norm(grads []*tensors.Tensor) (float64, error) {
	g, err := u.p.programs.get(u.p.backend, programKey{kind: "gradient norm"}, u.p.model.gradientNorm)
	if err != nil {
		return 0, err
	}
	out, err := u.p.backend.arguments(len(grads)).keep(grads...).run(g)
	if err != nil {
		return 0, err
	}
	v, err := downloadWide(out[0])
	if err != nil {
		return 0, err
	}
	return v[0], finalize(out...)
}

// apply takes an AdamW step with the gradients, which it consumes.
func (u *updating) apply(weights *weightSet, grads []*tensors.Tensor, scale, rate float64) error {
	p, c, at := u.p, u.config, float64(u.steps+1)
	g, err := p.programs.get(p.backend, programKey{kind: "adamw"}, p.model.adamw)
	if err != nil {
		return err
	}
	args := p.backend.arguments(g.NumParameters()).keep(weights.tensors...).donate(grads...).donate(u.moments.first...).donate(u.moments.second...)
	hostScalars(args, p.model.dtype, scale, 1-rate*c.WeightDecay, c.Beta1, 1-c.Beta1, c.Beta2, 1-c.Beta2,
		rate/(1-math.Pow(c.Beta1, at)), math.Sqrt(1-math.Pow(c.Beta2, at)), c.Epsilon)
	out, err := args.run(g)
	if err != nil {
		return err
	}
	n := len(grads)
	u.moments = moments{first: out[n : 2*n], second: out[2*n:]}
	u.steps++
	return p.replace(out[:n])
}

// nonFinite finds the first sample that alone gives a value that is not finite.
func (u *updating) nonFinite(ctx context.Context, weights *weightSet, batch []int, first bool, step int, what string) error {
	e := &NonFiniteError{Step: step, Objective: u.spec.Objective.Name, Sample: -1, What: what}
	for _, i := range batch {
		if len(u.positions[i]) == 0 {
			continue
		}
		result, grads, _, err := u.gradient(ctx, weights, []int{i}, first)
		if err != nil {
			continue // the sample cannot stand alone (pairs): it is not the one to name
		}
		norm, err := u.norm(grads)
		if e := finalize(grads...); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("look for the sample whose %s is not finite: %w", what, err)
		}
		if !finite(norm) || !finite(result.Loss) {
			e.Sample = i
			return e
		}
	}
	return e
}
