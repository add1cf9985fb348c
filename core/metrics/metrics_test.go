package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/forage-rl/forage/core/record"
)

type event struct {
	time    float64
	step    int64
	version string
	values  map[string]float32
}

// readEvents reads an event file by the description of the format, independently of the writer.
func readEvents(path string) ([]event, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var events []event
	for len(data) > 0 {
		if len(data) < 12 {
			return events, io.ErrUnexpectedEOF
		}
		n := binary.LittleEndian.Uint64(data)
		if unmask(data[8:]) != crcBitwise(data[:8]) {
			return events, errors.New("checksum of the length")
		}
		if uint64(len(data)) < 16+n {
			return events, io.ErrUnexpectedEOF
		}
		body := data[12 : 12+n]
		if unmask(data[12+n:]) != crcBitwise(body) {
			return events, errors.New("checksum of the data")
		}
		data = data[16+n:]
		e := event{values: map[string]float32{}}
		err := fields(body, func(num protowire.Number, raw []byte, bits uint64) error {
			switch num {
			case 1:
				e.time = math.Float64frombits(bits)
			case 2:
				e.step = int64(bits)
			case 3:
				e.version = string(raw)
			case 5:
				return fields(raw, func(num protowire.Number, raw []byte, _ uint64) error {
					var tag string
					var value float32
					err := fields(raw, func(num protowire.Number, raw []byte, bits uint64) error {
						switch num {
						case 1:
							tag = string(raw)
						case 2:
							value = math.Float32frombits(uint32(bits))
						}
						return nil
					})
					e.values[tag] = value
					return err
				})
			default:
				return fmt.Errorf("unknown field %d", num)
			}
			return nil
		})
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

func fields(b []byte, do func(num protowire.Number, raw []byte, bits uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var raw []byte
		var bits uint64
		switch typ {
		case protowire.VarintType:
			bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			bits = uint64(v)
		case protowire.BytesType:
			raw, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := do(num, raw, bits); err != nil {
			return err
		}
	}
	return nil
}

func unmask(b []byte) uint32 {
	x := binary.LittleEndian.Uint32(b) - 0xa282ead8
	return x>>17 | x<<15
}

// crcBitwise is CRC-32C from its polynomial, bit by bit.
func crcBitwise(data []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range data {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ (0x82f63b78 & -(crc & 1))
		}
	}
	return ^crc
}

func TestChecksum(t *testing.T) {
	// The check value of CRC-32C.
	if c := crcBitwise([]byte("123456789")); c != 0xe3069283 {
		t.Fatalf("reader: %x", c)
	}
	if m := maskedCRC([]byte("123456789")); unmask(binary.LittleEndian.AppendUint32(nil, m)) != 0xe3069283 {
		t.Fatalf("writer: %x", m)
	}
}

func eventFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*tfevents*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTensorBoard(t *testing.T) {
	dir := t.TempDir()
	at := time.Unix(1700000000, 500000000)
	b, err := newTensorBoard(dir, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Log(3, map[string]float64{"loss": 0.25, "episode/reward": math.NaN(), "é<&>": math.Inf(1)}); err != nil {
		t.Fatal(err)
	}
	// Readable before the file is closed: a killed process loses nothing.
	events, err := readEvents(eventFiles(t, dir)[0])
	if err != nil || len(events) != 2 {
		t.Fatalf("%v %v", events, err)
	}
	if events[0].version != "brain.Event:2" || events[0].time != 1700000000.5 {
		t.Errorf("head %+v", events[0])
	}
	e := events[1]
	if e.step != 3 || e.time != 1700000000.5 || len(e.values) != 3 || e.values["loss"] != 0.25 ||
		!math.IsNaN(float64(e.values["episode/reward"])) || !math.IsInf(float64(e.values["é<&>"]), 1) {
		t.Errorf("event %+v", e)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// A second writer in the same folder, at the same second, takes another file.
	b2, err := newTensorBoard(dir, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	defer b2.Close()
	if files := eventFiles(t, dir); len(files) != 2 {
		t.Fatalf("files %v", files)
	}
}

func TestOpenAndResume(t *testing.T) {
	run := record.Run{Dir: t.TempDir(), ID: "r"}
	a, err := run.NewAttempt(nil, record.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		s, err := Open(a)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 3 {
			if err := s.Log(3*round+step+1, map[string]float64{"x": float64(step), "bad": math.NaN()}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// The process dies in the middle of a line.
		f, err := os.OpenFile(a.MetricsPath(), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"step":9,"att`); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	lines, err := record.ReadMetrics(run)
	if err != nil || len(lines) != 6 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, l := range lines {
		if l.Step != i+1 || l.Attempt != 1 || l.Time.IsZero() || l.Values["x"] != float64(i%3) || !math.IsNaN(l.Values["bad"]) {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	all := map[string]float32{}
	for _, f := range eventFiles(t, a.TensorBoardDir()) {
		events, err := readEvents(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			maps.Copy(all, e.values)
		}
	}
	if len(all) != 2 {
		t.Errorf("TensorBoard holds %v", all)
	}
}

func TestRefusals(t *testing.T) {
	a := record.Attempt{Dir: t.TempDir(), N: 1}
	s, err := Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Log(-1, nil); err == nil || !strings.Contains(err.Error(), "step") {
		t.Errorf("negative step: %v", err)
	}
	if err := s.Log(1, map[string]float64{"": 1}); err == nil {
		t.Error("value without a name accepted")
	}
	if lines, err := record.ReadMetricsFile(a.MetricsPath()); err != nil || lines != nil {
		t.Errorf("refused values were written: %v %v", lines, err)
	}
}
