package checkpoint

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// Tensor is a named array in row-major order. Exactly one of Data and Ints is set.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32 // F32, F16 and BF16 values as float32
	Ints  []int64   // I64 values; only [ReadTensors] and [WriteTensors] carry them
}

// maxHeader is the limit of the reference implementation.
const maxHeader = 100 << 20

// header is the checked table of contents of a safetensors file.
type header struct {
	path     string
	tensors  map[string]entry
	metadata map[string]string
}

// entry is one tensor of a file. begin and end are absolute offsets and lie within the file.
type entry struct {
	dtype      string
	shape      []int
	begin, end int64
}

func (e entry) elements() int64 { return (e.end - e.begin) / dtypeSize(e.dtype) }

// dtypeSize is the size in bytes of one element, 0 for an unknown dtype.
func dtypeSize(dtype string) int64 {
	switch dtype {
	case "F64", "I64", "U64":
		return 8
	case "F32", "I32", "U32":
		return 4
	case "F16", "BF16", "I16", "U16":
		return 2
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2":
		return 1
	}
	return 0
}

// readHeader reads and checks the header of an open safetensors file: what it says fits the file exactly, without
// holes or overlaps, as the format demands. Memory stays proportional to the file's own size.
func readHeader(f io.ReaderAt, path string, size int64) (header, error) {
	fail := func(format string, args ...any) (header, error) {
		return header{}, fmt.Errorf("%s: not a valid safetensors file: %w", path, fmt.Errorf(format, args...))
	}
	var lenBytes [8]byte
	if size < int64(len(lenBytes)) {
		return fail("%d bytes are too few, is the file truncated?", size)
	}
	if _, err := f.ReadAt(lenBytes[:], 0); err != nil {
		return fail("read header length: %w", err)
	}
	n := binary.LittleEndian.Uint64(lenBytes[:])
	if n < 2 || n > maxHeader || int64(n) > size-8 {
		return fail("header length %d does not fit a file of %d bytes (limit %d), is the file truncated?", n, size, maxHeader)
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, 8); err != nil {
		return fail("read header: %w", err)
	}
	var table struct {
		Metadata map[string]string `json:"__metadata__"`
		Tensors  map[string]struct {
			DType       string  `json:"dtype"`
			Shape       []int64 `json:"shape"`
			DataOffsets []int64 `json:"data_offsets"`
		} `json:",embed"`
	}
	// Version 2 of the package refuses a name that occurs twice, which is the ambiguity to fear here.
	if err := json.Unmarshal(raw, &table); err != nil {
		return fail("header: %w", err)
	}
	h := header{path: path, tensors: make(map[string]entry, len(table.Tensors)), metadata: table.Metadata}
	body := size - 8 - int64(n)
	var spans []entry
	for name, t := range table.Tensors {
		elem := dtypeSize(t.DType)
		if elem == 0 {
			return fail("tensor %q has unknown dtype %q", name, t.DType)
		}
		if len(t.DataOffsets) != 2 {
			return fail("tensor %q: data_offsets must be [begin, end]", name)
		}
		begin, end := t.DataOffsets[0], t.DataOffsets[1]
		if begin < 0 || end < begin || end > body {
			return fail("tensor %q lies at bytes %d to %d of %d data bytes, is the file truncated?", name, begin, end, body)
		}
		want := elem
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			if d < 0 || (d > 0 && want > math.MaxInt64/d) {
				return fail("tensor %q has an impossible shape %v", name, t.Shape)
			}
			want *= d
			shape[i] = int(d)
		}
		if want != end-begin {
			return fail("tensor %q of shape %v and dtype %s needs %d bytes, data_offsets give %d", name, t.Shape, t.DType, want, end-begin)
		}
		e := entry{dtype: t.DType, shape: shape, begin: 8 + int64(n) + begin, end: 8 + int64(n) + end}
		h.tensors[name] = e
		spans = append(spans, e)
	}
	slices.SortFunc(spans, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := 8 + int64(n)
	for _, e := range spans {
		if e.begin != at {
			return fail("bytes %d to %d of the file belong to no tensor or to two", min(at, e.begin), max(at, e.begin))
		}
		at = e.end
	}
	if at != size {
		return fail("%d bytes behind the last tensor", size-at)
	}
	return h, nil
}

// read gives the values of one tensor.
func (h header) read(f io.ReaderAt, name string) (Tensor, error) {
	e := h.tensors[name]
	t := Tensor{Name: name, Shape: slices.Clone(e.shape)}
	n := e.elements()
	switch e.dtype {
	case "F32", "F16", "BF16":
		t.Data = make([]float32, n)
	case "I64":
		t.Ints = make([]int64, n)
	default:
		return Tensor{}, fmt.Errorf("%s: tensor %q has dtype %s (supported: F32, F16, BF16)", h.path, name, e.dtype)
	}
	size := dtypeSize(e.dtype)
	buf := make([]byte, min(1<<20, e.end-e.begin))
	for done := int64(0); done < n; {
		part := buf[:min(int64(len(buf)), (n-done)*size)]
		if _, err := f.ReadAt(part, e.begin+done*size); err != nil {
			return Tensor{}, fmt.Errorf("%s: read tensor %q: %w", h.path, name, err)
		}
		count := int64(len(part)) / size
		switch e.dtype {
		case "F32":
			for i, dst := 0, t.Data[done:done+count]; i < len(dst); i++ {
				dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(part[4*i:]))
			}
		case "BF16":
			for i, dst := 0, t.Data[done:done+count]; i < len(dst); i++ {
				dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(part[2*i:])) << 16)
			}
		case "F16":
			for i, dst := 0, t.Data[done:done+count]; i < len(dst); i++ {
				dst[i] = fromFloat16(binary.LittleEndian.Uint16(part[2*i:]))
			}
		case "I64":
			for i, dst := 0, t.Ints[done:done+count]; i < len(dst); i++ {
				dst[i] = int64(binary.LittleEndian.Uint64(part[8*i:]))
			}
		}
		done += count
	}
	return t, nil
}

// fromFloat16 converts an IEEE 754 half exactly.
func fromFloat16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp, frac := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24, exact in float32
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case 0x1f: // infinity or NaN, payload kept
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// toBFloat16 rounds to the nearest bfloat16, ties to even; NaN stays NaN.
func toBFloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// ReadTensors reads all tensors of one safetensors file, in the order of the file, with its metadata.
func ReadTensors(path string) ([]Tensor, map[string]string, error) {
	f, h, err := openTensors(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	names := h.names()
	tensors := make([]Tensor, 0, len(names))
	for _, name := range names {
		t, err := h.read(f, name)
		if err != nil {
			return nil, nil, err
		}
		tensors = append(tensors, t)
	}
	return tensors, h.metadata, nil
}

// names lists the tensors in the order of the file.
func (h header) names() []string {
	names := make([]string, 0, len(h.tensors))
	for name := range h.tensors {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(h.tensors[a].begin, h.tensors[b].begin), cmp.Compare(a, b))
	})
	return names
}

func openTensors(path string) (*os.File, header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, header{}, fmt.Errorf("read tensors: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, header{}, errors.Join(fmt.Errorf("read tensors: %w", err), f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, header{}, errors.Join(fmt.Errorf("%s is not a file", path), f.Close())
	}
	h, err := readHeader(f, path, info.Size())
	if err != nil {
		return nil, header{}, errors.Join(err, f.Close())
	}
	return f, h, nil
}

// WriteTensors writes one safetensors file: Data as F32 and Ints as I64, bit for bit. The file appears whole or not
// at all.
func WriteTensors(path string, tensors []Tensor, metadata map[string]string) error {
	plan := make([]planned, len(tensors))
	for i, t := range tensors {
		dtype, n := "F32", len(t.Data)
		if t.Ints != nil {
			dtype, n = "I64", len(t.Ints)
			if t.Data != nil {
				return fmt.Errorf("write %s: tensor %q has both Data and Ints", path, t.Name)
			}
		}
		plan[i] = planned{name: t.Name, dtype: dtype, shape: t.Shape}
		if want, err := plan[i].elements(); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		} else if want != int64(n) {
			return fmt.Errorf("write %s: tensor %q of shape %v has %d values", path, t.Name, t.Shape, n)
		}
	}
	return writeAtomic(path, func(w io.Writer) error {
		return writeFile(w, plan, metadata, func(i int) (Tensor, error) { return tensors[i], nil })
	})
}

// planned is a tensor whose values are still to come.
type planned struct {
	name  string
	dtype string
	shape []int
}

func (p planned) elements() (int64, error) {
	n := int64(1)
	for _, d := range p.shape {
		if d < 0 || (d > 0 && n > math.MaxInt64/16/int64(d)) {
			return 0, fmt.Errorf("tensor %q has an impossible shape %v", p.name, p.shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// writeFile writes a header and then the values of each tensor as load gives them, holding one tensor at a time.
func writeFile(w io.Writer, plan []planned, metadata map[string]string, load func(i int) (Tensor, error)) error {
	type jsonEntry struct {
		DType       string   `json:"dtype"`
		Shape       []int    `json:"shape"`
		DataOffsets [2]int64 `json:"data_offsets"`
	}
	table := make(map[string]any, len(plan)+1)
	if len(metadata) > 0 {
		table["__metadata__"] = metadata
	}
	at := int64(0)
	for _, p := range plan {
		if _, twice := table[p.name]; twice || p.name == "__metadata__" {
			return fmt.Errorf("tensor name %q is taken", p.name)
		}
		n, err := p.elements()
		if err != nil {
			return err
		}
		size := n * dtypeSize(p.dtype)
		shape := p.shape
		if shape == nil {
			shape = []int{}
		}
		table[p.name] = jsonEntry{DType: p.dtype, Shape: shape, DataOffsets: [2]int64{at, at + size}}
		at += size
	}
	raw, err := json.Marshal(table, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	for len(raw)%8 != 0 { // the format pads so that the values are aligned
		raw = append(raw, ' ')
	}
	b := bufio.NewWriterSize(w, 1<<20)
	if _, err := b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(raw)))); err != nil {
		return err
	}
	if _, err := b.Write(raw); err != nil {
		return err
	}
	for i, p := range plan {
		t, err := load(i)
		if err != nil {
			return err
		}
		want, _ := p.elements() // checked above
		if got := int64(max(len(t.Data), len(t.Ints))); got != want {
			return fmt.Errorf("tensor %q of shape %v has %d values", p.name, p.shape, got)
		}
		if err := writeValues(b, p.dtype, t); err != nil {
			return err
		}
	}
	return b.Flush()
}

func writeValues(w *bufio.Writer, dtype string, t Tensor) error {
	buf := make([]byte, 0, 64<<10)
	flush := func(room int) error {
		if cap(buf)-len(buf) >= room {
			return nil
		}
		_, err := w.Write(buf)
		buf = buf[:0]
		return err
	}
	for _, v := range t.Data {
		if err := flush(4); err != nil {
			return err
		}
		if dtype == "BF16" {
			buf = binary.LittleEndian.AppendUint16(buf, toBFloat16(v))
		} else {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
	}
	for _, v := range t.Ints {
		if err := flush(8); err != nil {
			return err
		}
		buf = binary.LittleEndian.AppendUint64(buf, uint64(v))
	}
	_, err := w.Write(buf)
	return err
}
