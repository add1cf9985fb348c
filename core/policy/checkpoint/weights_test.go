package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomWeights gives reproducible values for a tensor: the same name and shape, the same values.
func randomWeights(s TensorSpec) ([]float32, error) {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	r := rand.New(rand.NewPCG(uint64(len(s.Name)), uint64(s.Name[len(s.Name)/2])))
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(r.NormFloat64())
	}
	return data, nil
}

func writeModel(t *testing.T, c Config, dtype string, maxShard int64) string {
	t.Helper()
	dir := t.TempDir()
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := WriteWeights(dir, c.Expected(), randomWeights, dtype, maxShard); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWeightsRoundTrip(t *testing.T) {
	for _, maxShard := range []int64{0, 700} {
		for _, dtype := range []string{Float32, BFloat16} {
			t.Run(fmt.Sprintf("%s shard %d", dtype, maxShard), func(t *testing.T) {
				dir := writeModel(t, tinyConfig(), dtype, maxShard)
				c, tensors, err := Load(dir)
				if err != nil {
					t.Fatal(err)
				}
				specs := c.Expected()
				if len(tensors) != len(specs) {
					t.Errorf("read %d tensors, want %d", len(tensors), len(specs))
				}
				for _, s := range specs {
					want, _ := randomWeights(s)
					got := tensors[s.Name]
					if !slices.Equal(got.Shape, s.Shape) {
						t.Fatalf("%s has shape %v, want %v", s.Name, got.Shape, s.Shape)
					}
					for i := range want {
						if dtype == BFloat16 {
							want[i] = math.Float32frombits(uint32(toBFloat16(want[i])) << 16)
						}
						if math.Float32bits(got.Data[i]) != math.Float32bits(want[i]) {
							t.Fatalf("%s[%d] = %g, want %g", s.Name, i, got.Data[i], want[i])
						}
					}
				}
				shards, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
				if (len(shards) > 1) != (maxShard > 0) {
					t.Errorf("got files %v", shards)
				}
				for _, s := range shards {
					if info, _ := os.Stat(s); maxShard > 0 && info.Size() > maxShard+2000 {
						t.Errorf("%s has %d bytes", s, info.Size())
					}
				}
			})
		}
	}
}

func TestWriteWeightsReplacesOldFiles(t *testing.T) {
	dir := writeModel(t, tinyConfig(), Float32, 700)
	if err := WriteWeights(dir, tinyConfig().Expected(), randomWeights, Float32, 0); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*safetensors*"))
	if len(files) != 1 {
		t.Errorf("old shards are left: %v", files)
	}
	if err := WriteWeights(dir, tinyConfig().Expected(), randomWeights, Float32, 700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, weightsFile)); err == nil {
		t.Error("the old single file is left beside the shards")
	}
	if _, _, err := Load(dir); err != nil {
		t.Error(err)
	}
}

func TestWriteWeightsFailureLeavesOldWeights(t *testing.T) {
	for _, maxShard := range []int64{0, 700} {
		dir := writeModel(t, tinyConfig(), Float32, maxShard)
		before, err := Digest(dir)
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("no space left on device")
		count := 0
		err = WriteWeights(dir, tinyConfig().Expected(), func(s TensorSpec) ([]float32, error) {
			if count++; count == 9 {
				return nil, broken
			}
			return randomWeights(s)
		}, BFloat16, maxShard)
		if !errors.Is(err, broken) {
			t.Fatalf("got %v, want the loader's error", err)
		}
		if after, err := Digest(dir); err != nil || after != before {
			t.Errorf("weights changed: %v %v %v", before, after, err)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".tmp") {
				t.Errorf("temporary file %s is left", e.Name())
			}
		}
	}
	// A write error (a full disk) surfaces, wherever it strikes.
	plan := []planned{{name: "a", dtype: "F32", shape: []int{100000}}}
	for _, room := range []int{0, 4, 100, 200000} {
		err := writeFile(&fullDisk{room: room}, plan, nil, func(int) (Tensor, error) { return Tensor{Data: make([]float32, 100000)}, nil })
		if !errors.Is(err, errFull) {
			t.Errorf("room %d: got %v", room, err)
		}
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{ room int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errFull
	}
	d.room -= len(p)
	return len(p), nil
}

func TestCheckNamesTheTensor(t *testing.T) {
	c := tinyConfig()
	specs := c.Expected()
	write := func(specs []TensorSpec, maxShard int64) string {
		dir := t.TempDir()
		if err := errors.Join(c.Write(dir), WriteWeights(dir, specs, randomWeights, Float32, maxShard)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	expect := func(dir string, parts ...string) {
		t.Helper()
		_, _, err := Load(dir)
		for _, p := range parts {
			if err == nil || !strings.Contains(err.Error(), p) {
				t.Errorf("got %v, want an error with %q", err, p)
			}
		}
	}
	missing := slices.DeleteFunc(slices.Clone(specs), func(s TensorSpec) bool { return s.Name == "model.layers.1.mlp.up_proj.weight" })
	expect(write(missing, 0), `"model.layers.1.mlp.up_proj.weight"`, "[12 8]", "missing", weightsFile)
	expect(write(missing, 700), `"model.layers.1.mlp.up_proj.weight"`, "missing", indexFile)
	wrong := slices.Clone(specs)
	wrong[1].Shape = []int{9}
	expect(write(wrong, 0), `"model.layers.0.input_layernorm.weight"`, "[9]", "[8]", weightsFile)
	expect(write(append(slices.Clone(specs), TensorSpec{"model.layers.0.self_attn.q_norm.weight", []int{2}}), 0), "q_norm", "not part of a llama model")
	for _, fine := range []string{"lm_head.weight", "score.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"} {
		if _, _, err := Load(write(append(slices.Clone(specs), TensorSpec{fine, []int{2}}), 0)); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	// A shard that is gone, one that is cut, and an index that leads out of the folder.
	dir := write(specs, 700)
	shards, _ := filepath.Glob(filepath.Join(dir, "model-*.safetensors"))
	if err := os.Truncate(shards[1], 600); err != nil {
		t.Fatal(err)
	}
	expect(dir, shards[1], "truncated")
	if err := os.Remove(shards[1]); err != nil {
		t.Fatal(err)
	}
	expect(dir, shards[1], "no such file")
	if err := os.WriteFile(filepath.Join(dir, indexFile), []byte(`{"weight_map":{"a":"../a.safetensors"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(dir, "expected a file name in the same folder")
	expect(t.TempDir(), ConfigFile)
}

func TestTensorsBitExact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.safetensors")
	values := []float32{0, float32(math.Copysign(0, -1)), 1e-45, math.MaxFloat32, float32(math.Inf(-1)), math.Float32frombits(0x7fc12345), math.Float32frombits(0xff812345)}
	want := []Tensor{
		{Name: "exp_avg/model.norm.weight", Shape: []int{7}, Data: values},
		{Name: "step", Shape: []int{}, Ints: []int64{math.MinInt64}},
		{Name: "rng", Shape: []int{2, 2}, Ints: []int64{1, -1, math.MaxInt64, 0}},
		{Name: "empty", Shape: []int{0, 3}, Data: []float32{}},
	}
	meta := map[string]string{"step": "12", "λ": "\u2028\"\\"}
	if err := WriteTensors(path, want, meta); err != nil {
		t.Fatal(err)
	}
	got, gotMeta, err := ReadTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	bits := cmp.Transformer("bits", math.Float32bits)
	if diff := cmp.Diff(want, got, bits); diff != "" {
		t.Errorf("tensors changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(meta, gotMeta); diff != "" {
		t.Errorf("metadata changed (-want +got):\n%s", diff)
	}
	for name, bad := range map[string][]Tensor{
		"shape":   {{Name: "a", Shape: []int{3}, Data: values}},
		"twice":   {{Name: "a", Shape: []int{1}, Data: values[:1]}, {Name: "a", Shape: []int{1}, Data: values[:1]}},
		"both":    {{Name: "a", Shape: []int{1}, Data: values[:1], Ints: []int64{1}}},
		"meta":    {{Name: "__metadata__", Shape: []int{1}, Data: values[:1]}},
		"product": {{Name: "a", Shape: []int{math.MaxInt, 8}, Data: values[:1]}},
	} {
		if err := WriteTensors(path, bad, nil); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if again, _, err := ReadTensors(path); err != nil || len(again) != len(want) {
		t.Errorf("a refused write touched the file: %v", err)
	}
}

// Every half is checked against its definition; every bfloat16 survives, and rounding is to nearest, ties to even.
func TestHalfFormats(t *testing.T) {
	for h := range 1 << 16 {
		sign, exp, frac := 1.0, h>>10&0x1f, float64(h&0x3ff)
		if h>>15 == 1 {
			sign = -1
		}
		want := sign * math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			want = math.Copysign(math.Ldexp(frac/1024, -14), sign)
		case exp == 31 && frac == 0:
			want = math.Inf(int(sign))
		case exp == 31:
			want = math.NaN()
		}
		if got := float64(fromFloat16(uint16(h))); got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (h>>15 == 1) {
			t.Fatalf("half %#04x = %g, want %g", h, got, want)
		}
		v := math.Float32frombits(uint32(h) << 16)
		if got := toBFloat16(v); got != uint16(h) && v == v {
			t.Fatalf("bfloat16 %#04x came back as %#04x", h, got)
		}
	}
	for bits, want := range map[uint32]uint16{
		0x3f808000: 0x3f80, 0x3f818000: 0x3f82, 0x3f808001: 0x3f81, 0x3f807fff: 0x3f80, 0x7f7fffff: 0x7f80, 0x7f800001: 0x7fc0, 0xff800001: 0xffc0,
	} {
		if got := toBFloat16(math.Float32frombits(bits)); got != want {
			t.Errorf("%#08x rounds to %#04x, want %#04x", bits, got, want)
		}
	}
}

func rawFile(header string, body int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, body)...)
}

func TestHostileHeaders(t *testing.T) {
	long := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for name, data := range map[string][]byte{
		"empty":          {},
		"only length":    long,
		"huge length":    append(long, "{}"...),
		"not JSON":       rawFile("hello world", 0),
		"array":          rawFile("[]", 0),
		"unknown dtype":  rawFile(`{"a":{"dtype":"X","shape":[1],"data_offsets":[0,4]}}`, 4),
		"no offsets":     rawFile(`{"a":{"dtype":"F32","shape":[1]}}`, 4),
		"beyond end":     rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 4),
		"negative":       rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4),
		"negative shape": rawFile(`{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}`, 4),
		"overflow":       rawFile(`{"a":{"dtype":"F32","shape":[4611686018427387904,4,1],"data_offsets":[0,4]}}`, 4),
		"shape":          rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4),
		"hole":           rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8),
		"tail":           rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 8),
		"overlap":        rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4),
		"twice":          rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4),
		"metadata":       rawFile(`{"__metadata__":{"a":1}}`, 0),
	} {
		if _, err := readHeader(bytes.NewReader(data), name, int64(len(data))); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}`, 12))
	f.Add(rawFile(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[0,7],"data_offsets":[0,0]}}`, 0))
	f.Add(rawFile(`{"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}}  `, 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		h, err := readHeader(r, "fuzz", int64(len(data)))
		if err != nil {
			return
		}
		total := 0
		for _, name := range h.names() {
			tensor, err := h.read(r, name)
			if err == nil {
				total += len(tensor.Data) + len(tensor.Ints)
			}
		}
		if total > len(data) {
			t.Errorf("%d values from %d bytes", total, len(data))
		}
	})
}

func TestDigest(t *testing.T) {
	dir := writeModel(t, tinyConfig(), Float32, 0)
	seen := map[string]string{}
	note := func(what string) {
		t.Helper()
		d, err := Digest(dir)
		if err != nil {
			t.Fatal(err)
		}
		if before, twice := seen[d]; twice {
			t.Errorf("%s: same digest as %s", what, before)
		}
		seen[d] = what
	}
	note("first")
	for _, name := range []string{"tokenizer.json", "chat_template.jinja"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		note(name)
	}
	c := tinyConfig()
	c.RopeTheta = 5
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	note("config")
	if err := WriteWeights(dir, c.Expected(), randomWeights, BFloat16, 0); err != nil {
		t.Fatal(err)
	}
	note("weights")
	if _, err := Digest(t.TempDir()); err == nil {
		t.Error("digest of an empty folder")
	}
}
