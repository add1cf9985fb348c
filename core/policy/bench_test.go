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

// job is something to measure: run gives the tokens of one round; what prepare does for it is not counted.
type job struct {
	name    string
	prepare func(b *testing.B, round int)
	run     func(b *testing.B, round int) int
}

// jobs are named as testdata/peer_torch.py names its own.
func jobs(b *testing.B) []job {
	var list []job
	list = append(list, decodeJobs(b, "MiniHop", tiny(), 80, 42, 168)...)
	list = append(list, trainJob(b, "MiniHop", tiny(), 48, 136))
	list = append(list, decodeJobs(b, "Small", small(), 64, 64, 256)...)
	return append(list, trainJob(b, "Small", small(), 32, 256))
}

// decodeJobs samples up to total tokens: once after prompts whose keys and values the session holds already ("steps"),
// once with the prompts ("whole").
func decodeJobs(b *testing.B, name string, config checkpoint.Config, rows, prompt, total int) []job {
	prompts := func(round int) []Row {
		var list []Row
		for i := range rows {
			key := rng.New(uint64(round+1), uint64(i))
			list = append(list, Row{ID: int64(i), Tokens: randomTokens(key, prompt, config.VocabSize), MaxNew: total - prompt, Key: key})
		}
		return list
	}
	s := session(b, newTiny(b, config), rows, total)
	sample := func(b *testing.B, list []Row) int {
		n := 0
		for _, out := range generate(b, s, list, SampleParams{}) {
			n += len(out.Tokens)
		}
		return n
	}
	var held []Row
	prefill := func(b *testing.B, round int) {
		held = prompts(round)
		for i := range held {
			held[i].MaxNew = 1
		}
		for i, out := range generate(b, s, held, SampleParams{}) {
			held[i].Tokens, held[i].MaxNew = append(held[i].Tokens, out.Tokens...), total-prompt-1
		}
	}
	return []job{
		{"Decode" + name + "/steps", prefill, func(b *testing.B, _ int) int { return sample(b, held) }},
		{"Decode" + name + "/whole", func(*testing.B, int) {}, func(b *testing.B, round int) int { return sample(b, prompts(round)) }},
	}
}

// trainJob trains on all tokens but the first, as the peers do.
func trainJob(b *testing.B, name string, config checkpoint.Config, rows, length int) job {
	tr := newTrainer(b, newTiny(b, config), OptimizerConfig{LearningRate: 1e-4, ClipNorm: 1})
	objective := objectiveOf(b, o.TokenMean(o.NLL(), o.MaskPolicy), nil)
	return job{"Train" + name, func(*testing.B, int) {}, func(b *testing.B, round int) int {
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
	}}
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

// rate runs rounds of a job, after one that compiles, and gives tokens per processor second.
func (j job) rate(b *testing.B, rounds int) float64 {
	b.Helper()
	j.prepare(b, -1)
	j.run(b, -1)
	tokens, used := 0, 0.0
	b.ResetTimer()
	for i := range rounds {
		b.StopTimer()
		j.prepare(b, i)
		start := cpuSeconds(b)
		b.StartTimer()
		tokens += j.run(b, i)
		used += cpuSeconds(b) - start
	}
	b.StopTimer()
	return float64(tokens) / used
}

// BenchmarkPolicy measures sampling and training. Where two processors share one core, their seconds count double: with
// GOMAXPROCS=1 the rates are those of a core.
func BenchmarkPolicy(b *testing.B) {
	for _, j := range jobs(b) {
		b.Run(j.name, func(b *testing.B) { b.ReportMetric(j.rate(b, b.N), "tok/cpu-s") })
	}
}

// BenchmarkPolicyAgainstTorch gives the rates as multiples of those of PyTorch on one thread, with the same models and
// measured in the same run, where python3 has it.
func BenchmarkPolicyAgainstTorch(b *testing.B) {
	if err := exec.Command("python3", "-c", "import torch").Run(); err != nil {
		b.Skip("python3 has no torch")
	}
	out, err := exec.Command("python3", "testdata/peer_torch.py").Output()
	if err != nil {
		b.Fatal(err)
	}
	peer := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		var m struct {
			Name   string
			TokCPU float64 `json:"tok_cpu_s"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			b.Fatal(err)
		}
		peer[m.Name] = m.TokCPU
	}
	for _, j := range jobs(b) {
		if peer[j.name] == 0 {
			b.Fatalf("testdata/peer_torch.py does not measure %s", j.name)
		}
		b.Run(j.name, func(b *testing.B) {
			b.ReportMetric(j.rate(b, b.N)/peer[j.name], "x-torch")
			b.ReportMetric(peer[j.name], "torch-tok/cpu-s")
		})
	}
}
