package index

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"unsafe"
)

// The format that Graph[int].Export of github.com/coder/hnsw v0.6.1 writes: signed varints for integers and lengths,
// then per layer from the bottom each vector with its key and the keys of its links; vectors are repeated in every layer.
const (
	coderVersion  = 1
	coderCosine   = "cosine"
	coderMaxName  = 64
	coderMaxLayer = maxLevel + 1
)

// ExportCoder writes the graph as Graph[int].Export of github.com/coder/hnsw v0.6.1 does; keys are unit numbers. That
// library knows only the cosine of ours, so that inner products need vectors of length 1. Its search stops early: ask
// it for some 200 hits and keep the best.
func (h *HNSW) ExportCoder(w io.Writer) error {
	defer runtime.KeepAlive(h.vectorSet)
	for i := range h.count {
		length, err := lengthOf(h.row(i))
		if err != nil {
			return fmt.Errorf("export for coder/hnsw: vector %d: %w", i, err)
		}
		if length == 0 {
			return fmt.Errorf("export for coder/hnsw: vector %d is all zeros, for which that library's distance is not a number", i)
		}
		if h.metric == InnerProduct && math.Abs(length-1) > 1e-3 {
			return fmt.Errorf("export for coder/hnsw: vector %d has length %.4g: that library has no inner product, it needs vectors of length 1", i, length)
		}
	}
	out := &coderWriter{w: bufio.NewWriterSize(w, 1<<16)}
	out.integer(coderVersion)
	// There M is the limit of links in every layer, here that of all layers but the lowest.
	out.integer(2 * h.params.M)
	out.bytes(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1/float64(h.params.M))))
	out.integer(h.params.EfConstruction)
	out.integer(len(coderCosine))
	out.bytes([]byte(coderCosine))
	layers := int(h.levels[h.entry]) + 1
	out.integer(layers)
	for l := range layers {
		count := 0
		for _, level := range h.levels {
			if int(level) >= l {
				count++
			}
		}
		out.integer(count)
		for i, level := range h.levels {
			if int(level) < l {
				continue
			}
			out.integer(i)
			out.integer(h.dimensions)
			for _, x := range h.row(i)[:h.dimensions] {
				out.bytes(binary.LittleEndian.AppendUint32(out.buffer[:0], math.Float32bits(x)))
			}
			links := h.links(uint32(i), l)
			out.integer(len(links))
			for _, id := range links {
				out.integer(int(id))
			}
		}
	}
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("export for coder/hnsw: %w", out.err)
	}
	return nil
}

type coderWriter struct {
	w      *bufio.Writer
	buffer [binary.MaxVarintLen64]byte
	err    error
}

func (c *coderWriter) integer(n int) {
	c.bytes(c.buffer[:binary.PutVarint(c.buffer[:], int64(n))])
}

func (c *coderWriter) bytes(data []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(data)
	}
}

// coderNode is one vector in one layer.
type coderNode struct {
	key   int64
	links []int64
}

// ImportCoder reads a graph that Graph[int].Export of github.com/coder/hnsw wrote, with the cosine as distance. Units are
// numbered in ascending order of the keys, which are given back. With repair, vectors that its builder left out of
// reach are linked in; its links are otherwise taken as they are, and with them their low recall on clustered data:
// build a graph of the vectors anew where that matters. Lengths in the file are believed only as far as data follow.
func ImportCoder(r io.Reader, repair bool) (*HNSW, []int64, error) {
	in := &coderReader{r: bufio.NewReaderSize(r, 1<<16)}
	h, keys, err := in.graph()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, fmt.Errorf("import from coder/hnsw: %w", err)
	}
	if repair {
		h.repair()
	}
	return h, keys, nil
}

type coderReader struct {
	r          *bufio.Reader
	dimensions int
	vectors    map[int64][]float32
}

func (c *coderReader) graph() (*HNSW, []int64, error) {
	version, err := c.integer("version", 0, math.MaxInt32)
	if err != nil {
		return nil, nil, err
	}
	if version != coderVersion {
		return nil, nil, fmt.Errorf("version %d, expected %d", version, coderVersion)
	}
	m, err := c.integer("m", 1, maxM)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.r.Discard(8); err != nil { // the level factor is of no use to us
		return nil, nil, err
	}
	if _, err := c.integer("ef", 0, math.MaxInt32); err != nil {
		return nil, nil, err
	}
	size, err := c.integer("length of the distance's name", 0, coderMaxName)
	if err != nil {
		return nil, nil, err
	}
	name := make([]byte, size)
	if _, err := io.ReadFull(c.r, name); err != nil {
		return nil, nil, err
	}
	if string(name) != coderCosine {
		return nil, nil, fmt.Errorf("distance %q is not supported, only %q", name, coderCosine)
	}
	count, err := c.integer("number of layers", 0, coderMaxLayer)
	if err != nil {
		return nil, nil, err
	}
	c.vectors = map[int64][]float32{}
	var layers [][]coderNode
	for l := range count {
		layer, err := c.layer(l)
		if err != nil {
			return nil, nil, fmt.Errorf("layer %d: %w", l, err)
		}
		// Deletions may leave layers empty at the top.
		if len(layer) > 0 && len(layers) < l {
			return nil, nil, fmt.Errorf("layer %d: it is above an empty one", l)
		}
		if len(layer) > 0 {
			layers = append(layers, layer)
		}
	}
	if len(layers) == 0 {
		return nil, nil, errors.New("the graph is empty")
	}
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("data after the graph")
	}
	return c.assemble(m, layers)
}

// layer reads one layer; vectors are kept from the lowest.
func (c *coderReader) layer(l int) ([]coderNode, error) {
	count, err := c.integer("number of vectors", 0, maxVectors)
	if err != nil {
		return nil, err
	}
	seen := map[int64]bool{}
	var nodes []coderNode
	for range count {
		key, err := binary.ReadVarint(c.r)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("key %d twice", key)
		}
		seen[key] = true
		vector, err := c.vector(l)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", key, err)
		}
		if l == 0 {
			c.vectors[key] = vector
		} else if c.vectors[key] == nil {
			return nil, fmt.Errorf("key %d is not in the lowest layer", key)
		}
		degree, err := c.integer("number of links", 0, 2*maxM)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", key, err)
		}
		node := coderNode{key: key}
		for range degree {
			link, err := binary.ReadVarint(c.r)
			if err != nil {
				return nil, err
			}
			if link != key && !slices.Contains(node.links, link) {
				node.links = append(node.links, link)
			}
		}
		nodes = append(nodes, node)
	}
	for _, node := range nodes {
		for _, link := range node.links {
			if !seen[link] {
				return nil, fmt.Errorf("key %d is linked to %d, which is not there", node.key, link)
			}
		}
	}
	return nodes, nil
}

func (c *coderReader) vector(l int) ([]float32, error) {
	size, err := c.integer("dimensions", 1, maxDimensions)
	if err != nil {
		return nil, err
	}
	if c.dimensions == 0 {
		c.dimensions = size
	}
	if size != c.dimensions {
		return nil, fmt.Errorf("%d dimensions, the first vector has %d", size, c.dimensions)
	}
	if l > 0 {
		_, err := c.r.Discard(4 * size)
		return nil, err
	}
	vector := make([]float32, size)
	// The view is of a slice that holds no pointers; the format is little-endian, as our machines are.
	_, err = io.ReadFull(c.r, unsafe.Slice((*byte)(unsafe.Pointer(&vector[0])), 4*size))
	return vector, err
}

func (c *coderReader) assemble(m int, layers [][]coderNode) (*HNSW, []int64, error) {
	keys := make([]int64, 0, len(c.vectors))
	for key := range c.vectors {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	units := make(map[int64]uint32, len(keys))
	rows := Matrix{Dimensions: c.dimensions, Data: make([]float32, 0, len(keys)*c.dimensions)}
	for i, key := range keys {
		units[key] = uint32(i)
		rows.Data = append(rows.Data, c.vectors[key]...)
	}
	set, err := newVectorSet(rows, Cosine, false)
	if err != nil {
		return nil, nil, err
	}
	// Our layers above the lowest hold M links, the lowest twice as many.
	m = max(m, 2)
	for l, layer := range layers {
		for _, node := range layer {
			if l == 0 {
				m = max(m, (len(node.links)+1)/2)
			} else {
				m = max(m, len(node.links))
			}
		}
	}
	params, err := HNSWParams{M: m, Metric: Cosine}.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	h := &HNSW{vectorSet: set, params: params, levels: make([]uint8, len(keys))}
	for l, layer := range layers {
		for _, node := range layer {
			unit := units[node.key]
			if l > 0 && int(h.levels[unit]) != l-1 {
				return nil, nil, fmt.Errorf("layer %d: key %d is not in the layer below", l, node.key)
			}
			h.levels[unit] = uint8(l)
		}
	}
	// The lowest key of the topmost layer.
	h.entry = units[slices.MinFunc(layers[len(layers)-1], func(a, b coderNode) int { return cmp.Compare(a.key, b.key) }).key]
	h.base = make([]uint32, h.count*(1+2*m))
	h.upper = make([]uint32, h.place()*(1+m))
	for l, layer := range layers {
		for _, node := range layer {
			block := h.block(units[node.key], l)
			slices.Sort(node.links)
			for i, link := range node.links {
				block[i+1] = units[link]
			}
			block[0] = uint32(len(node.links))
		}
	}
	h.init()
	return h, keys, nil
}

// integer reads a varint within bounds.
func (c *coderReader) integer(what string, low, high int) (int, error) {
	n, err := binary.ReadVarint(c.r)
	if err != nil {
		return 0, err
	}
	if n < int64(low) || n > int64(high) {
		return 0, fmt.Errorf("%s is %d, expected %d to %d", what, n, low, high)
	}
	return int(n), nil
}
