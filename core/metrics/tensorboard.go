package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of tensorflow.Event, tensorflow.Summary and tensorflow.Summary.Value.
const (
	eventWallTime    = 1
	eventStep        = 2
	eventFileVersion = 3
	eventSummary     = 5

	summaryValue = 1

	valueTag    = 1
	valueSimple = 2
)

// TensorBoard writes an event file: records of [length, checksum, tensorflow.Event, checksum].
type TensorBoard struct {
	f   *os.File
	now func() time.Time
}

// NewTensorBoard starts a new event file in dir. TensorBoard reads the files of one folder as one run, so a reopened
// folder only gains a file.
func NewTensorBoard(dir string) (*TensorBoard, error) {
	return newTensorBoard(dir, time.Now)
}

func newTensorBoard(dir string, now func() time.Time) (*TensorBoard, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open TensorBoard file: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	start := now()
	for n := 0; ; n++ {
		// TensorBoard wants "tfevents" in the name and orders files by the time in it.
		name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", start.Unix(), host, os.Getpid(), n)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open TensorBoard file: %w", err)
		}
		t := &TensorBoard{f: f, now: now}
		head := appendTime(nil, start)
		head = protowire.AppendTag(head, eventFileVersion, protowire.BytesType)
		head = protowire.AppendString(head, "brain.Event:2")
		if err := t.write(head); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return t, nil
	}
}

// Log implements Sink: one event with a scalar per value. Values are rounded to float32, as the format has them.
func (t *TensorBoard) Log(step int, values map[string]float64) error {
	if err := check(step, values); err != nil {
		return err
	}
	var summary []byte
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var v []byte
		v = protowire.AppendTag(v, valueTag, protowire.BytesType)
		v = protowire.AppendString(v, name)
		v = protowire.AppendTag(v, valueSimple, protowire.Fixed32Type)
		v = protowire.AppendFixed32(v, math.Float32bits(float32(values[name])))
		summary = protowire.AppendTag(summary, summaryValue, protowire.BytesType)
		summary = protowire.AppendBytes(summary, v)
	}
	event := appendTime(nil, t.now())
	event = protowire.AppendTag(event, eventStep, protowire.VarintType)
	event = protowire.AppendVarint(event, uint64(step))
	event = protowire.AppendTag(event, eventSummary, protowire.BytesType)
	event = protowire.AppendBytes(event, summary)
	return t.write(event)
}

// Sync implements Sink.
func (t *TensorBoard) Sync() error { return t.f.Sync() }

// Close implements Sink.
func (t *TensorBoard) Close() error { return errors.Join(t.f.Sync(), t.f.Close()) }

func (t *TensorBoard) write(event []byte) error {
	if _, err := t.f.Write(frame(event)); err != nil {
		return fmt.Errorf("write TensorBoard event: %w", err)
	}
	return nil
}

func appendTime(b []byte, at time.Time) []byte {
	b = protowire.AppendTag(b, eventWallTime, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixNano())/1e9))
}

// frame is the TFRecord framing: little-endian length, masked CRC of the length, data, masked CRC of the data.
func frame(data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, maskedCRC(out))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, maskedCRC(data))
}

// maskedCRC is CRC-32C, rotated and shifted by a constant: the format stores checksums of data that hold checksums.
func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}
