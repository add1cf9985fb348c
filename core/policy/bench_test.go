package policy

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	o "github.com/forage-rl/forage/core/sdk/objective"
)

// small is a Llama of 0.82 million parameters.
func small() checkpoint.Config {
	return checkpoint.Config{ModelType: checkpoint.Llama, HiddenSize: 128, Layers: 4, Heads: 4, KVHeads: 4, HeadDim: 32,
		IntermediateSize: 320, VocabSize: 512, MaxPositions: 512, RMSNormEps: 1e-6, RopeTheta: 10000, TieWordEmbeddings: true}
}

// cpuSeconds is the processor time of this process, user and system.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// measure reports tokens per processor second and per second; f gives the tokens of one round.
func measure(b *testing.B, f func(round int) int) {
	b.Helper()
	f(-1) // compiles
	tokens := 0
	b.ResetTimer()
	start := cpuSeconds(b)
	for i := range b.N {
		tokens += f(i)
	}
	b.StopTimer()
	used := cpuSeconds(b) - start
	b.ReportMetric(float64(tokens)/used, "tok/cpu-s")
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tok/s")
}

func benchmarkDecode(b *testing.B, config checkpoint.Config, rows, prompt, total int) {
	p := newTiny(b, config)
	s := session(b, p, rows, total)
	measure(b, func(round int) int {
		var list []Row
		for i := range rows {
			key := rng.New(uint64(round+1), uint64(i))
			list = append(list, Row{ID: int64(i), Tokens: randomTokens(key, prompt, config.VocabSize), MaxNew: total - prompt, Key: key})
		}
		n := 0
		for _, out := range generate(b, s, list, SampleParams{}) {
			n += len(out.Tokens)
		}
		return n
	})
}

func BenchmarkDecodeMiniHop(b *testing.B) { benchmarkDecode(b, tiny(), 80, 42, 168) }
func BenchmarkDecodeSmall(b *testing.B)   { benchmarkDecode(b, small(), 64, 64, 256) }

// benchmarkTrain trains on all response tokens but the first two, as the peers do.
func benchmarkTrain(b *testing.B, config checkpoint.Config, rows, length int) {
	p := newTiny(b, config)
	tr := newTrainer(b, p, OptimizerConfig{LearningRate: 1e-4, ClipNorm: 1})
	objective := objectiveOf(b, o.TokenMean(o.NLL(), o.MaskPolicy), nil)
	measure(b, func(round int) int {
		var samples []TrainSample
		for i := range rows {
			s := TrainSample{Tokens: randomTokens(rng.New(uint64(round+1), uint64(i)), length, config.VocabSize), PromptLength: 1}
			for range length - 1 {
				s.PolicyMask = append(s.PolicyMask, true)
			}
			samples = append(samples, s)
		}
		update(b, tr, UpdateSpec{Objective: objective, Samples: samples})
		return rows * length
	})
}

func BenchmarkTrainMiniHop(b *testing.B) { benchmarkTrain(b, tiny(), 48, 136) }
func BenchmarkTrainSmall(b *testing.B)   { benchmarkTrain(b, small(), 32, 256) }

// BenchmarkPeerTorch measures the same models in PyTorch, where python3 has it.
func BenchmarkPeerTorch(b *testing.B) {
	if err := exec.Command("python3", "-c", "import torch").Run(); err != nil {
		b.Skip("python3 has no torch")
	}
	for range b.N {
		out, err := exec.Command("python3", "testdata/peer_torch.py").Output()
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			var m struct {
				Name   string
				TokCPU float64 `json:"tok_cpu_s"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(m.TokCPU, m.Name+"-tok/cpu-s")
		}
	}
}
