//go:build unix

package index

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

// BenchmarkHNSWAgainstHnswlib compares with hnswlib, compiled for this machine, on the same vectors in the same run.
// FORAGE_HNSWLIB names the folder that holds hnswlib/hnswlib.h, for instance /usr/include where Debian's libhnswlib-dev
// is installed; without it, or without g++, the benchmark is skipped. All times are CPU seconds of one thread; the two
// take turns so that a busy machine slows both.
//
// Metrics: qps-ratio is our queries per second over theirs, each at its smallest ef with recall@10 of at least .99;
// build-ratio is our build time over theirs.
func BenchmarkHNSWAgainstHnswlib(b *testing.B) {
	include := os.Getenv("FORAGE_HNSWLIB")
	if include == "" {
		b.Skip("set FORAGE_HNSWLIB to the folder that holds hnswlib/hnswlib.h")
	}
	compiler, err := exec.LookPath("g++")
	if err != nil {
		b.Skip("needs g++")
	}
	dir := b.TempDir()
	driver := filepath.Join(dir, "hnswlib_bench")
	build := exec.CommandContext(b.Context(), compiler, "-O3", "-march=native", "-std=c++14", "-w", "-I", include,
		"-o", driver, filepath.Join("testdata", "hnswlib_bench.cc"), "-lpthread")
	if output, err := build.CombinedOutput(); err != nil {
		b.Fatalf("compile the driver: %v\n%s", err, output)
	}
	for _, data := range []struct{ n, dimensions, latent int }{{benchSize(), 128, 32}, {benchSize() / 4, 768, 48}} {
		b.Run(fmt.Sprintf("%dx%d", data.n, data.dimensions), func(b *testing.B) {
			comparePeer(b, driver, dir, data.n, data.dimensions, data.latent)
		})
	}
}

func comparePeer(b *testing.B, driver, dir string, n, dimensions, latent int) {
	const m, efConstruction, k, wanted = 16, 100, 10, .99
	points, queries := mixture(n, dimensions, latent, 1000, 1)
	flat, err := NewFlat(points, InnerProduct, false)
	if err != nil {
		b.Fatal(err)
	}
	var truth []int32
	for i := range queries.Rows() {
		hits, err := flat.Search(queries.Row(i), k, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, hit := range hits {
			truth = append(truth, int32(hit.Unit))
		}
	}
	pointsFile := writeTable(b, dir, "points", points.Rows(), dimensions, mapped.Bytes(points.Data))
	queriesFile := writeTable(b, dir, "queries", queries.Rows(), dimensions, mapped.Bytes(queries.Data))
	truthFile := writeTable(b, dir, "truth", queries.Rows(), k, mapped.Bytes(truth))

	peer := exec.CommandContext(b.Context(), driver, pointsFile, queriesFile, truthFile, fmt.Sprint(m), fmt.Sprint(efConstruction))
	peer.Stderr = os.Stderr
	in, err := peer.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := peer.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := peer.Start(); err != nil {
		b.Fatal(err)
	}
	defer peer.Wait() //nolint:errcheck // it ends with its input
	defer in.Close()
	answers := bufio.NewReader(out)
	var peerBuild float64
	if _, err := fmt.Fscan(answers, &peerBuild); err != nil {
		b.Fatalf("the driver gave no build time: %v", err)
	}
	start := cpuSeconds()
	h, err := BuildHNSW(b.Context(), points, HNSWParams{M: m, EfConstruction: efConstruction, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	ourBuild := cpuSeconds() - start

	askPeer := func(ef int) (recall, seconds float64) {
		fmt.Fprintln(in, ef)
		if _, err := fmt.Fscan(answers, &recall, &seconds); err != nil {
			b.Fatalf("the driver stopped: %v", err)
		}
		return recall, seconds
	}
	askUs := func(ef int) (recall, seconds float64) {
		found := make([]Hit, 0, queries.Rows()*k)
		start := cpuSeconds()
		for i := range queries.Rows() {
			found, _ = h.AppendSearch(found, queries.Row(i), k, ef, nil)
		}
		seconds = cpuSeconds() - start
		right := 0
		for i, hit := range found {
			for _, unit := range truth[i/k*k:][:k] {
				if int(unit) == hit.Unit {
					right++
				}
			}
		}
		return float64(right) / float64(len(truth)), seconds
	}
	reach := func(ask func(int) (float64, float64)) int {
		for _, ef := range []int{10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 256, 512} {
			if recall, _ := ask(ef); recall >= wanted {
				return ef
			}
		}
		b.Fatalf("recall %.2f not reached", wanted)
		return 0
	}
	for _, ef := range []int{10, 20, 40, 100} {
		theirRecall, theirs := askPeer(ef)
		ourRecall, ours := askUs(ef)
		b.Logf("ef %3d: recall@10 ours %.4f hnswlib %.4f, queries/s ours %.0f hnswlib %.0f", ef, ourRecall, theirRecall,
			float64(queries.Rows())/ours, float64(queries.Rows())/theirs)
	}
	ourEf, theirEf := reach(askUs), reach(askPeer)
	var ours, theirs float64
	for b.Loop() {
		for range 5 {
			_, seconds := askPeer(theirEf)
			theirs += seconds
			_, seconds = askUs(ourEf)
			ours += seconds
		}
	}
	b.Logf("build: ours %.1f s, hnswlib %.1f s; recall@10 of .99: ours at ef %d, hnswlib at ef %d", ourBuild, peerBuild, ourEf, theirEf)
	b.ReportMetric(theirs/ours, "qps-ratio")
	b.ReportMetric(ourBuild/peerBuild, "build-ratio")
}

func writeTable(b *testing.B, dir, name string, rows, columns int, data []byte) string {
	b.Helper()
	var buffer bytes.Buffer
	for _, number := range []int32{int32(rows), int32(columns)} {
		if err := binary.Write(&buffer, binary.LittleEndian, number); err != nil {
			b.Fatal(err)
		}
	}
	buffer.Write(data)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, buffer.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// cpuSeconds is the CPU time of this process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
