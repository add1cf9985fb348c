package policy

import (
	"fmt"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
)

// programKey names a compiled graph: what it does and every size that it was compiled for.
type programKey struct {
	kind  string
	sizes [6]int
}

// programs keeps the compiled graphs of a policy. Weights are always parameters of a graph, so a program is valid
// for every version of the weights.
//
// Where compiling is cheap, only the last mostPrograms used are kept.
type programs struct {
	mu    sync.Mutex
	byID  map[programKey]*program
	clock uint64
}

type program struct {
	graph *graph.Graph
	last  uint64
}

const mostPrograms = 128

// get gives the program of that key, building it at the first call. build makes the parameters in the order in which
// run takes the values.
func (ps *programs) get(b *Backend, key programKey, build func(g *graph.Graph) []*graph.Node) (*graph.Graph, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.clock++
	if p, ok := ps.byID[key]; ok {
		p.last = ps.clock
		return p.graph, nil
	}
	var g *graph.Graph
	err := exceptions.TryCatch[error](func() {
		g = graph.NewGraph(b.engine, fmt.Sprintf("%s%v", key.kind, key.sizes))
		if err := g.Compile(build(g)...); err != nil {
			panic(err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("compile %s%v: %w", key.kind, key.sizes, err)
	}
	if ps.byID == nil {
		ps.byID = map[programKey]*program{}
	}
	if len(ps.byID) >= mostPrograms && !b.dearCompile {
		oldest := key
		for k, p := range ps.byID {
			if oldest == key || p.last < ps.byID[oldest].last {
				oldest = k
			}
		}
		// Not finalized: another goroutine may be running it. Nothing but Go memory hangs on it.
		delete(ps.byID, oldest)
	}
	ps.byID[key] = &program{graph: g, last: ps.clock}
	return g, nil
}

func (ps *programs) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byID {
		p.graph.Finalize()
	}
	ps.byID = nil
}

// arguments collects the values of a program's parameters in order.
type arguments struct {
	b       *Backend
	buffers []compute.Buffer
	donated []bool
	err     error
}

func (b *Backend) arguments(n int) *arguments {
	return &arguments{b: b, buffers: make([]compute.Buffer, 0, n), donated: make([]bool, 0, n)}
}

func (a *arguments) add(buffer compute.Buffer, donate bool, err error) {
	if err != nil && a.err == nil {
		a.err = err
	}
	a.buffers = append(a.buffers, buffer)
	a.donated = append(a.donated, donate)
}

// keep passes tensors that stay valid.
func (a *arguments) keep(list ...*tensors.Tensor) *arguments {
	for _, t := range list {
		buffer, err := t.Buffer(a.b.engine, 0)
		a.add(buffer, false, err)
	}
	return a
}

// donate passes tensors whose memory the program may reuse; they are invalid afterwards.
func (a *arguments) donate(list ...*tensors.Tensor) *arguments {
	for _, t := range list {
		buffer, err := t.DonateBuffer(a.b.engine, 0)
		a.add(buffer, true, err)
	}
	return a
}

// host passes values of the host, copied.
func host[T float32 | float64 | int32 | bool](a *arguments, flat []T, dims ...int) {
	t, err := upload(a.b, flat, dims...)
	if err != nil {
		a.add(nil, true, err)
		return
	}
	a.donate(t)
}

// hostFloats passes floats of the host in the given dtype.
func hostFloats(a *arguments, dtype dtypes.DType, flat []float32, dims ...int) {
	if dtype == dtypes.Float64 {
		wide := make([]float64, len(flat))
		for i, v := range flat {
			wide[i] = float64(v)
		}
		host(a, wide, dims...)
		return
	}
	host(a, flat, dims...)
}

// hostScalars passes numbers in the given dtype.
func hostScalars(a *arguments, dtype dtypes.DType, values ...float64) {
	for _, v := range values {
		if dtype == dtypes.Float64 {
			host(a, []float64{v})
		} else {
			host(a, []float32{float32(v)})
		}
	}
}

// run executes a program.
func (a *arguments) run(g *graph.Graph) ([]*tensors.Tensor, error) {
	if a.err != nil {
		return nil, fmt.Errorf("run %s: %w", g.Name(), a.err)
	}
	var out []*tensors.Tensor
	if err := exceptions.TryCatch[error](func() { out = g.RunWithBuffers(a.buffers, a.donated, 0) }); err != nil {
		return nil, fmt.Errorf("run %s: %w", g.Name(), err)
	}
	return out, nil
}

func finalize(list ...*tensors.Tensor) error {
	for _, t := range list {
		if err := t.FinalizeAll(); err != nil {
			return fmt.Errorf("free tensor: %w", err)
		}
	}
	return nil
}
