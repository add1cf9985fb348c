package policy

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// loopTokens is the number of tokens that one call decodes on backends where the caches are updated in place only
// inside a loop of the graph (XLA). Rows that the host stops in between have computed a few tokens for nothing.
const loopTokens = 16

// decodeLoop builds the program for up to steps tokens per slot, one after the other. A row stops at an
// end-of-sequence token or after its quota; then it stands still.
//
// Parameters: weights; tokens, positions, quota [slots], for rows that stand still 0, length, 0; uniforms
// [steps, slots]; inverse temperature; zeros [slots, steps] for tokens and for log-probabilities; caches.
// Results: tokens, log-probabilities [slots, steps], of which a row's first quota are real up to its end; caches.
func (m *model) decodeLoop(g *Graph, slots, length, steps, choose int) []*Node {
	dims := []int{slots, steps}
	weights := m.parameters(g)
	i32 := func(name string, dims ...int) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, dims...)) }
	tokens, positions, quota := i32("tokens", slots), i32("positions", slots), i32("quota", slots)
	uniforms := Parameter(g, "uniforms", shapes.Make(m.dtype, steps, slots))
	inverse := Parameter(g, "inverse_temperature", shapes.Make(m.dtype))
	// Zeros made here would be constants that the library reuses inside the loop, where they cannot be read.
	outTokens, outLogps := i32("out_tokens", dims...), Parameter(g, "out_logps", shapes.Make(m.dtype, dims...))
	caches := m.cacheParameters(g, slots, length)

	state := []*Node{Const(g, int32(0)), tokens, positions, quota, uniforms, inverse, outTokens, outLogps}
	fixed := len(state)
	// Closures cannot read nodes from outside them on XLA: weights travel along.
	state = append(append(state, caches...), weights...)
	inputs := func(g *Graph) []*Node {
		in := make([]*Node, len(state))
		for i, n := range state {
			in[i] = Parameter(g, fmt.Sprintf("state%d", i), n.Shape())
		}
		return in
	}
	cond := NewClosure(g, func(g *Graph) []*Node {
		in := inputs(g)
		return []*Node{And(LessThan(in[0], Const(g, int32(steps))), GreaterThan(ReduceAllMax(in[3]), Const(g, int32(0))))}
	})
	body := NewClosure(g, func(g *Graph) []*Node {
		in := inputs(g)
		step, tokens, positions, quota, uniforms, inverse, outTokens, outLogps := in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]
		caches, weights := in[fixed:fixed+m.caches()], in[fixed+m.caches():]
		zero, one := Const(g, int32(0)), Const(g, int32(1))
		active := ConvertDType(GreaterThan(quota, ZerosLike(quota)), dtypes.Int32)
		logits := m.decodeStep(weights, tokens, positions, active, caches)
		u := Gather(uniforms, step)
		next := m.choose(logits, u, inverse, choose)
		outTokens = DynamicUpdateSlice(outTokens, InsertAxes(next[0], -1), []*Node{zero, step})
		outLogps = DynamicUpdateSlice(outLogps, InsertAxes(next[1], -1), []*Node{zero, step})
		left := Max(Sub(quota, OnesLike(quota)), ZerosLike(quota))
		for _, eos := range m.config.EOS {
			end := Equal(next[0], AddScalar(ZerosLike(next[0]), float64(eos)))
			left = Where(end, ZerosLike(left), left)
		}
		still := Equal(left, ZerosLike(left))
		at := Where(still, AddScalar(ZerosLike(positions), float64(length)), Add(positions, OnesLike(positions)))
		out := []*Node{Add(step, one), next[0], at, left, uniforms, inverse, outTokens, outLogps}
		return append(append(out, caches...), weights...)
	})
	out := While(cond, body, state...)
	return append([]*Node{out[6], out[7]}, out[fixed:fixed+m.caches()]...)
}

// loop decodes up to loopTokens tokens of every running row of a block in one call.
func (r *sampling) loop(block int) error {
	m, n := r.p.model, r.size
	tokens, positions, quota := make([]int32, n), make([]int32, n), make([]int32, n)
	uniforms := make([]float32, n*loopTokens)
	for slot := range positions {
		positions[slot] = int32(r.length)
	}
	for i := range r.rows {
		at, in := r.lies(i, block)
		if !in {
			continue
		}
		out, ask := r.out[i].Tokens, r.rows[i]
		tokens[at], positions[at] = out[len(out)-1], int32(len(r.slots[r.slot[i]].tokens))
		quota[at] = int32(min(loopTokens, ask.MaxNew-len(out), r.maxTokens-len(ask.Tokens)-len(out)))
		for j := range loopTokens {
			uniforms[j*n+at] = ask.Key.Float32(uint64(len(out) + j))
		}
	}
	key := programKey{kind: "decode loop", sizes: [6]int{n, r.length, r.how}}
	g, err := r.p.programs.get(r.p.backend, key, func(g *Graph) []*Node { return m.decodeLoop(g, n, r.length, loopTokens, r.how) })
	if err != nil {
		return err
	}
	args := r.p.backend.arguments(g.NumParameters()).keep(r.weights.tensors...)
	host(args, tokens, n)
	host(args, positions, n)
	host(args, quota, n)
	hostFloats(args, m.dtype, uniforms, loopTokens, n)
	hostScalars(args, m.dtype, 1/r.params.Temperature)
	host(args, make([]int32, n*loopTokens), n, loopTokens)
	hostFloats(args, m.dtype, make([]float32, n*loopTokens), n, loopTokens)
	args.donate(r.cache[block]...)
	r.cache[block] = nil
	out, err := args.run(g)
	if err != nil {
		return err
	}
	r.cache[block] = out[2:]
	chosen, err := tensors.CopyFlatData[int32](out[0])
	if err != nil {
		return err
	}
	logps, err := downloadFloats(out[1])
	if err != nil {
		return err
	}
	for i := range r.rows {
		if at, in := r.lies(i, block); in {
			r.take(i, &r.slots[r.slot[i]], tokens[at], chosen[at*loopTokens:][:quota[at]], logps[at*loopTokens:])
		}
	}
	return finalize(out[:2]...)
}

// take records the tokens that a loop gave a row, whose first step read the token fed. The cache also holds what came
// after a token at which the host stops the row: a later call finds that it differs, and cuts it off.
func (r *sampling) take(row int, slot *slotState, fed int32, chosen []int32, logps []float32) {
	for j, token := range chosen {
		slot.tokens = append(slot.tokens, fed)
		fed = token
		if !r.end[row] {
			r.token(row, token, logps[j])
		}
		if r.out[row].Reason == StopEOS {
			return // here the loop has stopped the row as well
		}
	}
}
