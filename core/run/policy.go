package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/policy/tokenizer"
	"github.com/forage-rl/forage/core/record"
)

// locatePolicy finds or makes the folder of the policy that the run starts from.
func (r *runner) locatePolicy() error {
	main, err := r.main()
	if err != nil {
		return err
	}
	if r.policyDir, err = PolicyFolder(main, r.resources.path, r.CacheDir, r.Backend); err != nil {
		return fmt.Errorf("%s: %w", at(main.Handle, main.Range), err)
	}
	if err := isModelFolder(r.policyDir); err != nil {
		return fmt.Errorf("%s: %w", at(main.Handle, main.Range), err)
	}
	return nil
}

// isModelFolder says what a folder lacks of a model in the format of Hugging Face, before anything is read from it.
func isModelFolder(dir string) error {
	has := func(name string) bool {
		_, err := os.Stat(join(dir, name))
		return err == nil
	}
	var lacks []string
	if !has(checkpoint.ConfigFile) {
		lacks = append(lacks, checkpoint.ConfigFile)
	}
	if !has("model.safetensors") && !has("model.safetensors.index.json") {
		lacks = append(lacks, "model.safetensors (or model.safetensors.index.json and its parts)")
	}
	if !has("tokenizer.json") {
		lacks = append(lacks, "tokenizer.json")
	}
	if lacks != nil {
		return fmt.Errorf("%s is not the folder of a model in the format of Hugging Face: it lacks %s; take the files from where the model is published, or make the folder from a GGUF file with \"forage import gguf\"",
			dir, strings.Join(lacks, " and "))
	}
	return nil
}

// PolicyFolder gives the folder of a policy in the format of Hugging Face: the one that its block names, or one in the
// cache, made on first use from the files of a built-in policy or from drawn weights. path resolves paths.
func PolicyFolder(p *experiment.Policy, path func(string) string, cacheDir string, backend *policy.Backend) (string, error) {
	switch {
	case p.Builtin != "":
		return materialise(cacheDir, p.Builtin)
	case p.Init != nil:
		return initialise(p.Init, path, cacheDir, backend)
	}
	return path(p.Path), nil
}

// largePolicy is the number of parameters from which memory is collected often.
const largePolicy = 50_000_000

// loadPolicy loads the weights: those of the checkpoint that the attempt continues from, else the first ones.
func (r *runner) loadPolicy(ctx context.Context, from *record.Checkpoint) error {
	dir := r.policyDir
	if from != nil {
		if err := record.ReadJSON(join(from.Dir, "state.json"), &r.state); err != nil {
			return err
		}
		dir = join(from.Dir, "policy")
	}
	main, err := r.main()
	if err != nil {
		return err
	}
	r.report("loading the policy", 0, 0)
	if main.DType == "bfloat16" {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: this version computes and saves bfloat16 policies in float32", at(main.Handle, main.Range)))
	}
	if r.policy, err = policy.Load(ctx, dir, policy.Options{Backend: r.Backend, DType: computeType(main.DType)}); err != nil {
		return err
	}
	// The tensors of a large model are most of the memory and hold no pointers: collecting often costs next to
	// nothing, and without it garbage takes as much room as the model, its gradient and its optimizer together.
	if _, chosen := os.LookupEnv("GOGC"); !chosen && r.policy.Parameters() >= largePolicy {
		debug.SetGCPercent(25)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return err
	}
	if tok.VocabSize() > r.policy.Config().VocabSize {
		return fmt.Errorf("%s: the tokenizer has %d tokens, the model only %d rows: they do not belong together", dir, tok.VocabSize(), r.policy.Config().VocabSize)
	}
	r.tokenizer = newText(tok)
	r.decoded.Store(r.state.Budgets.DecodedTokens)
	context := main.MaxContext
	if most := r.policy.Config().MaxPositions; context == 0 || context > most {
		context = most
	}
	r.rows = rowsFor(r.policy.Config(), context)
	r.sampler, err = newSampler(r.policy, r.rows, context, &r.decoded)
	return err
}

// computeType is the number type of computation. Half precision is a format of storage here: a policy stored so is
// computed in float32.
func computeType(dtype string) string {
	if dtype == "float64" {
		return dtype
	}
	return "float32"
}

// selfDigest is the digest of the program that runs.
func selfDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func describeBackend(m *record.Manifest, d policy.Description) {
	m.Backend, m.CPUFeatures, m.GoVersion, m.Executors = d.Backend, slices.Clone(d.Features), runtime.Version(), d.Cores
	m.BuildFlags = []string{fmt.Sprintf("simd=%v", d.SIMD), fmt.Sprintf("xla=%v", d.XLA)}
}
