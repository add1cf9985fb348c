package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/record"
)

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

// loadPolicies loads the policies that are trained, and main: those of the checkpoint that the attempt continues from,
// else the first ones. Others are loaded when something asks for them.
func (r *runner) loadPolicies(ctx context.Context, from *record.Checkpoint) error {
	if from != nil {
		if err := record.ReadJSON(join(from.Dir, "state.json"), &r.state); err != nil {
			return err
		}
	}
	r.models = &models{run: r, from: from, byName: map[string]*model{}, frozen: map[frozenKey]*model{}}
	for _, role := range r.trainedRoles() {
		if _, err := r.models.get(ctx, role); err != nil {
			return err
		}
	}
	// A key that is not there is better known now than when the first request is due.
	for _, name := range r.policyNames() {
		if p, err := r.declared(name); err == nil && p.Endpoint != nil {
			if _, err := r.models.get(ctx, name); err != nil {
				return err
			}
		}
	}
	r.decoded.Store(r.state.Budgets.DecodedTokens)
	return nil
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
