package mapped

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"unsafe"
)

const (
	magic      = "FORAGE\r\n"
	headerSize = 64
	entrySize  = 40
	alignment  = 64
	// maxSections bounds the table of a hostile file; ours hold about a dozen sections.
	maxSections = 64
	flagBulk    = 1
)

var (
	// ErrFormat is wrapped by every error about a file that is not what it should be.
	ErrFormat = errors.New("not a valid artefact file")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

type entry struct {
	offset, length uint64
	sum            uint32
	bulk           bool
}

// File is an opened artefact. Slices taken from it are views and valid only while the File is reachable: a function
// that reads them must keep it alive (runtime.KeepAlive). The memory map ends when the File is garbage.
type File struct {
	data     []byte
	digest   [32]byte
	sections map[string]entry
	mapped   bool
}

// Open maps the file at path and checks it. Kind and version must be the ones it was written with.
func Open(path, kind string, version uint32) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file", path, ErrFormat)
	}
	if info.Size() < headerSize {
		return nil, fmt.Errorf("%s: %w: %d bytes are too few", path, ErrFormat, info.Size())
	}
	data, release, err := mapFile(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	f, err := Parse(data, kind, version)
	if err != nil {
		release()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.mapped = true
	runtime.AddCleanup(f, func(release func()) { release() }, release)
	return f, nil
}

// Parse checks an artefact held in memory; the File keeps data, which must not be changed afterwards.
func Parse(data []byte, kind string, version uint32) (*File, error) {
	if !littleEndian() {
		return nil, errors.New("artefact files need a little-endian machine")
	}
	if len(data) < headerSize || string(data[:8]) != magic {
		return nil, fmt.Errorf("%w: no header", ErrFormat)
	}
	if got := string(bytes.TrimRight(data[8:16], "\x00")); got != kind {
		return nil, fmt.Errorf("%w: it holds %q, expected %q", ErrFormat, got, kind)
	}
	if got := binary.LittleEndian.Uint32(data[16:]); got != version {
		return nil, fmt.Errorf("%w: version %d, this program reads version %d; delete it to have it made again", ErrFormat, got, version)
	}
	count := binary.LittleEndian.Uint32(data[20:])
	tableEnd := headerSize + int(min(count, maxSections))*entrySize
	if count > maxSections || len(data) < tableEnd+4 {
		return nil, fmt.Errorf("%w: table of %d sections", ErrFormat, count)
	}
	if size := binary.LittleEndian.Uint64(data[24:]); size != uint64(len(data)) {
		return nil, fmt.Errorf("%w: %d bytes, its header says %d", ErrFormat, len(data), size)
	}
	if crc32.Checksum(data[:tableEnd], castagnoli) != binary.LittleEndian.Uint32(data[tableEnd:]) {
		return nil, fmt.Errorf("%w: the header is damaged", ErrFormat)
	}
	f := &File{data: data, sections: make(map[string]entry, count)}
	copy(f.digest[:], data[32:64])
	end := uint64(tableEnd + 4)
	for i := range int(count) {
		row := data[headerSize+i*entrySize:][:entrySize]
		name := string(bytes.TrimRight(row[:16], "\x00"))
		e := entry{
			offset: binary.LittleEndian.Uint64(row[16:]),
			length: binary.LittleEndian.Uint64(row[24:]),
			sum:    binary.LittleEndian.Uint32(row[32:]),
			bulk:   binary.LittleEndian.Uint32(row[36:])&flagBulk != 0,
		}
		if _, twice := f.sections[name]; twice {
			return nil, fmt.Errorf("%w: section %q twice", ErrFormat, name)
		}
		if e.offset < end || e.offset%alignment != 0 || e.offset > uint64(len(data)) || e.length > uint64(len(data))-e.offset {
			return nil, fmt.Errorf("%w: section %q lies outside the file", ErrFormat, name)
		}
		end = e.offset + e.length
		f.sections[name] = e
		if !e.bulk {
			if err := f.check(name, e); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// Verify checks the sums of the bulk sections too, which reads the whole file.
func (f *File) Verify() error {
	defer runtime.KeepAlive(f)
	for name, e := range f.sections {
		if err := f.check(name, e); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) check(name string, e entry) error {
	if crc32.Checksum(f.data[e.offset:e.offset+e.length], castagnoli) != e.sum {
		return fmt.Errorf("%w: section %q is damaged", ErrFormat, name)
	}
	return nil
}

// Digest is what the writer gave.
func (f *File) Digest() [32]byte { return f.digest }

// Size is the length of the file in bytes.
func (f *File) Size() int64 { return int64(len(f.data)) }

// Mapped says whether the content lies in a memory map (and not on the heap).
func (f *File) Mapped() bool { return f.mapped }

// Number is the type of a section's items.
type Number interface {
	uint8 | uint16 | uint32 | uint64 | int32 | float32 | float64
}

// Section gives a section as items of type T, without copying where the alignment allows it.
func Section[T Number](f *File, name string) ([]T, error) {
	e, ok := f.sections[name]
	if !ok {
		return nil, fmt.Errorf("%w: section %q is missing", ErrFormat, name)
	}
	var zero T
	size := uint64(unsafe.Sizeof(zero))
	if e.length%size != 0 {
		return nil, fmt.Errorf("%w: section %q holds %d bytes, not a multiple of %d", ErrFormat, name, e.length, size)
	}
	if e.length == 0 {
		return nil, nil
	}
	raw := f.data[e.offset : e.offset+e.length]
	if uintptr(unsafe.Pointer(&raw[0]))%uintptr(size) == 0 {
		return unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), e.length/size), nil
	}
	items := make([]T, e.length/size)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&items[0])), e.length), raw)
	return items, nil
}

// Offsets gives a section of count+1 ascending uint64 that begin with 0 and end with last: the bounds of count items
// in another section.
func Offsets(f *File, name string, count int, last uint64) ([]uint64, error) {
	items, err := Section[uint64](f, name)
	if err != nil {
		return nil, err
	}
	if len(items) != count+1 || items[0] != 0 || items[count] != last {
		return nil, fmt.Errorf("%w: section %q does not bound %d items", ErrFormat, name, count)
	}
	for i := range count {
		if items[i] > items[i+1] {
			return nil, fmt.Errorf("%w: section %q falls at item %d", ErrFormat, name, i)
		}
	}
	return items, nil
}

func littleEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}
