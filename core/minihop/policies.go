package minihop

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed policies
var weights embed.FS

// Policies lists the base policies whose weights this build holds, as "minihop/habit".
func Policies() []string {
	files, err := fs.Glob(weights, "policies/*.safetensors")
	if err != nil { // only a malformed pattern fails
		return nil
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = "minihop/" + strings.TrimSuffix(path.Base(f), ".safetensors")
	}
	return names
}

// Policy gives the folder of a base policy, such as "minihop/habit", by file name: configuration, tokenizer and
// model.safetensors.
func Policy(name string) (map[string][]byte, error) {
	short := strings.TrimPrefix(name, "minihop/")
	data, err := weights.ReadFile("policies/" + short + ".safetensors")
	if errors.Is(err, fs.ErrNotExist) || !fs.ValidPath(short) {
		return nil, fmt.Errorf("minihop: no base policy %q in this build, which holds %s; experiments/minihop/cold.hcl makes them",
			name, orNone(Policies()))
	}
	if err != nil {
		return nil, fmt.Errorf("minihop: base policy %q: %w", name, err)
	}
	files, err := PolicyFiles(false, ProtocolOf(short))
	if err != nil {
		return nil, err
	}
	files["model.safetensors"] = data
	return files, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
