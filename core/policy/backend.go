package policy

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"
	"golang.org/x/sys/cpu"
)

// A Backend executes compiled graphs. Several policies may share one; it is safe for concurrent use.
type Backend struct {
	engine compute.Backend
	spec   string
	fused  bool // the engine has the fused dense, activation and attention operations

	hostMemory  bool // tensors lie in memory that the program may read and write in place
	dearCompile bool // compiling a graph takes much longer than running it
}

// DefaultBackend is what [OpenBackend] opens for the empty name: the Go backend with one executor per core.
func DefaultBackend() string {
	return fmt.Sprintf("%s:num_executors=%d", gobackend.BackendName, runtime.GOMAXPROCS(0))
}

// OpenBackend opens a backend by name: "" or "go" (everywhere), "go:<options>", or "xla:/absolute/path/plugin.so" in
// a program built with the tag xla.
func OpenBackend(spec string) (*Backend, error) {
	if spec == "" || spec == gobackend.BackendName {
		spec = DefaultBackend()
	}
	name, options, _ := strings.Cut(spec, ":")
	var engine compute.Backend
	var err error
	switch name {
	case gobackend.BackendName:
		engine, err = gobackend.New(options)
	case "xla":
		engine, err = openXLA(options)
	default:
		return nil, fmt.Errorf("open backend %q: unknown name %q: use \"go\" or \"xla:/absolute/path/of/plugin.so\"", spec, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open backend %q: %w", spec, err)
	}
	ops := engine.Capabilities().Operations
	return &Backend{
		engine: engine,
		spec:   spec, hostMemory: name == gobackend.BackendName, dearCompile: name != gobackend.BackendName,
		fused: ops[compute.OpTypeFusedDense] && ops[compute.OpTypeFusedDenseVJP] && ops[compute.OpTypeFusedActivation] &&
			ops[compute.OpTypeFusedActivationVJP] && ops[compute.OpTypeFusedScaledDotProductAttention],
	}, nil
}

// Name is the name with which the backend was opened.
func (b *Backend) Name() string { return b.spec }

// Close frees the backend. Policies that use it must be closed before.
func (b *Backend) Close() error {
	if b.engine != nil {
		b.engine.Finalize()
		b.engine = nil
	}
	return nil
}

// Description says what the policy runs on, for reports and manifests.
type Description struct {
	Backend  string   // as opened
	Kind     string   // what the engine says of itself
	Fused    bool     // fused attention and dense operations
	SIMD     bool     // the program was built with vector kernels and the processor has them
	XLA      bool     // the program was built with the tag xla
	Cores    int      // usable cores
	Features []string // vector instruction sets of the processor
	Warnings []string // what makes it slow, and how to change that
}

// Describe describes the backend.
func (b *Backend) Describe() Description {
	d := Description{
		Backend: b.spec, Kind: b.engine.Description(), Fused: b.fused,
		SIMD: simdBuilt && hasVectorUnit(), XLA: xlaBuilt, Cores: runtime.GOMAXPROCS(0), Features: vectorFeatures(),
	}
	if w := Warning(); w != "" && strings.HasPrefix(b.spec, gobackend.BackendName) {
		d.Warnings = append(d.Warnings, w)
	}
	return d
}

// Warning is a text to print at every run of a program that was built without vector kernels; else it is empty.
func Warning() string {
	if !simdBuilt && runtime.GOARCH == "amd64" {
		return "built without GOEXPERIMENT=simd: training and sampling on the Go backend are 5 to 8 times slower; build with GOEXPERIMENT=simd"
	}
	return ""
}

func hasVectorUnit() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

func vectorFeatures() []string {
	var out []string
	for _, f := range []struct {
		name string
		has  bool
	}{{"avx2", cpu.X86.HasAVX2}, {"fma", cpu.X86.HasFMA}, {"avx512f", cpu.X86.HasAVX512F}, {"avx512bf16", cpu.X86.HasAVX512BF16}, {"asimd", cpu.ARM64.HasASIMD}} {
		if f.has {
			out = append(out, f.name)
		}
	}
	return out
}

// ErrNotSupported marks what this build or version cannot do; the message says what to do instead.
var ErrNotSupported = errors.New("not supported")
