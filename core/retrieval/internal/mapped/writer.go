package mapped

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"unsafe"
)

// Target is where a Writer writes: an *os.File opened for writing, or a [Buffer].
type Target interface {
	io.Writer
	io.WriterAt
}

// Writer writes an artefact section by section. The header comes last, so that an interrupted file has none.
type Writer struct {
	target  Target
	out     *bufio.Writer
	kind    string
	version uint32
	slots   int
	names   []string
	entries []entry
	offset  uint64
	open    bool
	err     error
}

// NewWriter begins an artefact with room for the given number of sections.
func NewWriter(target Target, kind string, version uint32, sections int) *Writer {
	w := &Writer{target: target, out: bufio.NewWriterSize(target, 1<<20), kind: kind, version: version, slots: sections}
	if len(kind) > 8 || sections > maxSections {
		w.err = fmt.Errorf("artefact kind %q with %d sections: at most 8 bytes and %d sections", kind, sections, maxSections)
		return w
	}
	w.pad(headerSize + sections*entrySize + 4)
	w.align()
	return w
}

// Begin opens a section; what is written until the next Begin or Finish is its content. The sum of a bulk section is
// not checked when the file is opened.
func (w *Writer) Begin(name string, bulk bool) {
	w.end()
	if w.err == nil && (len(name) > 16 || len(w.entries) == w.slots || slices.Contains(w.names, name)) {
		w.err = fmt.Errorf("section %q: name too long or used, or more than %d sections", name, w.slots)
	}
	w.names = append(w.names, name)
	w.entries = append(w.entries, entry{offset: w.offset, bulk: bulk})
	w.open = true
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if !w.open {
		w.err = fmt.Errorf("write outside a section")
		return 0, w.err
	}
	e := &w.entries[len(w.entries)-1]
	e.sum = crc32.Update(e.sum, castagnoli, p)
	e.length += uint64(len(p))
	w.offset += uint64(len(p))
	n, err := w.out.Write(p)
	w.err = err
	return n, err
}

// Put writes items as a whole section.
func Put[T Number](w *Writer, name string, items []T) {
	w.Begin(name, false)
	w.Write(Bytes(items)) //nolint:errcheck // Finish reports it
}

// Bytes views items as the bytes that a section holds.
func Bytes[T Number](items []T) []byte {
	if len(items) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&items[0])), len(items)*int(unsafe.Sizeof(items[0])))
}

// Finish writes the header and reports the first error of all.
func (w *Writer) Finish(digest [32]byte) error {
	w.end()
	if w.err == nil && !littleEndian() {
		w.err = fmt.Errorf("artefact files need a little-endian machine")
	}
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err != nil {
		return w.err
	}
	head := make([]byte, headerSize, headerSize+len(w.entries)*entrySize+4)
	copy(head, magic)
	copy(head[8:16], w.kind)
	binary.LittleEndian.PutUint32(head[16:], w.version)
	binary.LittleEndian.PutUint32(head[20:], uint32(len(w.entries)))
	binary.LittleEndian.PutUint64(head[24:], w.offset)
	copy(head[32:], digest[:])
	for i, e := range w.entries {
		var row [entrySize]byte
		copy(row[:16], w.names[i])
		binary.LittleEndian.PutUint64(row[16:], e.offset)
		binary.LittleEndian.PutUint64(row[24:], e.length)
		binary.LittleEndian.PutUint32(row[32:], e.sum)
		if e.bulk {
			row[36] = flagBulk
		}
		head = append(head, row[:]...)
	}
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	_, w.err = w.target.WriteAt(head, 0)
	return w.err
}

func (w *Writer) end() {
	if w.open {
		w.open = false
		w.align()
	}
}

func (w *Writer) align() { w.pad(int(-w.offset % alignment)) }

func (w *Writer) pad(n int) {
	if w.err == nil {
		_, w.err = w.out.Write(make([]byte, n))
		w.offset += uint64(n)
	}
}

// Buffer is a Target in memory.
type Buffer struct{ data []byte }

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.data = append(b.data, p...)
	return len(p), nil
}

// WriteAt implements io.WriterAt for places already written.
func (b *Buffer) WriteAt(p []byte, offset int64) (int, error) {
	if offset < 0 || offset > int64(len(b.data)) || int64(len(p)) > int64(len(b.data))-offset {
		return 0, fmt.Errorf("write of %d bytes at %d of %d", len(p), offset, len(b.data))
	}
	return copy(b.data[offset:], p), nil
}

// Bytes is what was written.
func (b *Buffer) Bytes() []byte { return b.data }
