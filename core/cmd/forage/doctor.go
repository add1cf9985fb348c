package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
)

func (a *app) doctorCommand() *cobra.Command {
	var backend string
	var quick bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what forage runs on",
		Long: `Say how this forage was built, what it computes on and how fast that is (measured
in a few seconds), how to get the faster one, which plugin packs there are, and how
much the cache holds. It fails when something keeps studies from running.`,
		Example: "  forage doctor\n  forage doctor --backend xla:/usr/lib/pjrt_c_api_cpu_plugin.so",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{app: a}
			d.build()
			d.compute(cmd.Context(), backend, !quick)
			d.plugins(cmd.Context())
			d.disk()
			if d.faults > 0 {
				return fmt.Errorf("%d things keep studies from running; see above", d.faults)
			}
			fmt.Fprintln(a.out, "\nNothing is wrong.")
			return cmd.Context().Err()
		},
	}
	c.Flags().StringVar(&backend, "backend", "", "what to compute on: go, or xla:/path/of/plugin.so")
	c.Flags().BoolVar(&quick, "quick", false, "do not measure speed")
	return c
}

// doctor prints one finding a line and counts those that keep studies from running.
type doctor struct {
	*app
	faults int
}

func (d *doctor) say(label, format string, args ...any) {
	fmt.Fprintf(d.out, "%-12s %s\n", label, fmt.Sprintf(format, args...))
}

func (d *doctor) fault(label string, err error) {
	d.faults++
	d.say(label, "FAULT: %v", err)
}

func (d *doctor) build() {
	d.say("forage", "%s, %s, %s/%s, %d processors", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

func (d *doctor) compute(ctx context.Context, spec string, measure bool) {
	backend, err := policy.OpenBackend(spec)
	if err != nil {
		d.fault("backend", err)
		return
	}
	defer backend.Close()
	about := backend.Describe()
	d.say("backend", "%s (%s), %d executors, processor has %s", about.Backend, about.Kind, about.Cores,
		cmp.Or(strings.Join(about.Features, " "), "no vector instructions that are used"))
	switch {
	case about.SIMD:
		d.say("", "vector kernels: yes")
	default:
		d.say("", "vector kernels: no; build with GOEXPERIMENT=simd (\"make build\" does) on a processor that has them")
	}
	for _, w := range about.Warnings {
		d.say("", "warning: %s", w)
	}
	if about.XLA {
		d.say("", "XLA: built in; give a PJRT plugin with --backend xla:/path/of/plugin.so")
	} else {
		d.say("", "XLA: not built in; \"make xla\" (needs a C compiler) and --backend xla:/path/of/plugin.so compute faster on large models and on GPUs")
	}
	if !measure {
		return
	}
	speed, err := measureSpeed(ctx, backend)
	if err != nil {
		d.fault("speed", err)
		return
	}
	d.say("speed", "a policy of %.1f million weights writes %.0f tokens/s (%d episodes side by side) and reads %.0f tokens/s, %.1f GFLOP/s",
		float64(speed.weights)/1e6, speed.writing, speedRows, speed.reading, speed.gflops)
}

// speed is what a backend does with a small policy.
type speed struct {
	weights          int
	writing, reading float64 // tokens per second
	gflops           float64 // of reading
}

const (
	speedRows   = 32
	speedTokens = 32
	speedTime   = 1500 * time.Millisecond // per figure
)

// measureSpeed samples from, and reads with, a policy with random weights.
func measureSpeed(ctx context.Context, backend *policy.Backend) (s speed, err error) {
	config := checkpoint.Config{
		ModelType: checkpoint.Llama, HiddenSize: 256, Layers: 4, Heads: 4, KVHeads: 4, HeadDim: 64, IntermediateSize: 768,
		VocabSize: 1024, MaxPositions: 256, RMSNormEps: 1e-5, RopeTheta: 10000, TieWordEmbeddings: true,
	}
	p, err := policy.New(config, policy.DefaultInit(config, 1), policy.Options{Backend: backend})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s.weights = p.Parameters()
	session, err := p.NewSession(speedRows, 2*speedTokens)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	id := int64(0)
	s.writing, err = rate(func() (int, error) {
		rows := make([]policy.Row, speedRows)
		for i := range rows {
			id++
			rows[i] = policy.Row{ID: id, Tokens: []int32{1}, MaxNew: speedTokens}
		}
		outputs, err := session.Generate(ctx, rows, policy.SampleParams{})
		n := 0
		for i, out := range outputs {
			session.Release(rows[i].ID)
			n += len(out.Tokens)
		}
		return n, err
	})
	if err != nil {
		return s, err
	}
	sequences := make([]policy.Sequence, 16)
	for i := range sequences {
		tokens := make([]int32, 128)
		for j := range tokens {
			tokens[j] = int32((i*131 + j*17) % config.VocabSize)
		}
		sequences[i] = policy.Sequence{Tokens: tokens, PromptLength: 1}
	}
	s.reading, err = rate(func() (int, error) {
		_, _, err := p.LogProbs(ctx, sequences, 1, false, false)
		return len(sequences) * len(sequences[0].Tokens), err
	})
	s.gflops = s.reading * 2 * float64(s.weights) / 1e9
	return s, err
}

// rate repeats some work, after a first time that does not count, and gives what it counts per second.
func rate(work func() (int, error)) (float64, error) {
	if _, err := work(); err != nil {
		return 0, err
	}
	total, began := 0, time.Now()
	for time.Since(began) < speedTime {
		n, err := work()
		if err != nil {
			return 0, err
		}
		total += n
	}
	return float64(total) / time.Since(began).Seconds(), nil
}

func (d *doctor) plugins(ctx context.Context) {
	catalogue, err := d.discover(ctx)
	if err != nil {
		d.fault("plugins", err)
		return
	}
	defer catalogue.Close()
	counts := map[string]int{}
	versions := map[string]string{}
	plugins, err := catalogue.Plugins(ctx)
	for _, p := range plugins {
		counts[p.Pack.Path]++
		versions[p.Pack.Path] = p.PackVersion
	}
	bundled := 0
	for _, p := range catalogue.Packs() {
		switch {
		case p.Trusted && counts[p.Path] > 0:
			d.say("pack", "%s %s, %d plugins, %s", p.Short(), versions[p.Path], counts[p.Path], p.Path)
		case p.Trusted:
			d.fault("pack", fmt.Errorf("%s (%s) is trusted and lists no plugins", p.Short(), p.Path))
		case p.Bundled:
			d.fault("pack", &host.UntrustedError{Pack: p})
		default:
			d.say("pack", "%s (%s, sha256 %s) is not trusted and was not started; \"forage init\" asks about it", p.Short(), p.Path, p.Digest)
		}
		if p.Bundled {
			bundled++
		}
	}
	if bundled == 0 {
		d.fault("pack", errors.New("there are no packs beside forage; \"make build\" puts them there"))
	}
	var untrusted *host.UntrustedError
	if err != nil && !errors.As(err, &untrusted) {
		d.fault("pack", err)
	}
}

func (d *doctor) disk() {
	d.say("cache", "%s", d.cacheDir)
	entries, err := os.ReadDir(d.cacheDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fault("", err)
	}
	for _, e := range entries {
		size, err := dirSize(filepath.Join(d.cacheDir, e.Name()))
		if err != nil {
			d.fault("", err)
			continue
		}
		d.say("", "%s %s", e.Name(), bytesText(size))
	}
	d.say("records", "%s", d.runsDir)
	for _, place := range []struct{ label, dir string }{{"the cache", d.cacheDir}, {"the records", d.runsDir}} {
		free, err := freeSpace(place.dir)
		switch {
		case err != nil:
			d.fault("disk", err)
		case free < 1<<30:
			d.say("disk", "warning: only %s free for %s; checkpoints and indexes may not fit", bytesText(free), place.label)
		default:
			d.say("disk", "%s free for %s", bytesText(free), place.label)
		}
	}
}

// dirSize sums the sizes of the files below a path.
func dirSize(path string) (total int64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of another process
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// freeSpace is what a user may still write where a folder is, or will be.
func freeSpace(dir string) (int64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // the types differ from system to system
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return 0, fmt.Errorf("free space of %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}
