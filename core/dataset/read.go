package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/forage-rl/forage/core/internal/lines"
)

// record is one entry of a file, its numbers kept as json.Number.
type record struct {
	place  string // file:line; rows of Parquet and CSV count from 1
	number int    // from 0
	stem   string // file name without extensions
	fields map[string]any
}

// records reads a file of any of the supported containers, one record at a time.
func records(ctx context.Context, path string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		if err := read(ctx, path, func(r record) bool { return yield(r, nil) }); err != nil {
			yield(record{}, err)
		}
	}
}

func read(ctx context.Context, path string, yield func(record) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return fmt.Errorf("dataset: %w", err)
	} else if info.IsDir() {
		return fmt.Errorf("dataset: %s is a folder, want a file of questions", path)
	}
	name := strings.ToLower(filepath.Base(path))
	stem, _, _ := strings.Cut(filepath.Base(path), ".")
	number := 0
	last := 0
	emit := func(line int, fields map[string]any) bool {
		r := record{place: fmt.Sprintf("%s:%d", path, line), number: number, stem: stem, fields: fields}
		if line == last { // a list may stand on one line
			r.place += fmt.Sprintf(" (record %d)", number+1)
		}
		last = line
		number++
		return yield(r)
	}
	if strings.HasSuffix(name, ".parquet") {
		return readParquet(ctx, path, file, emit)
	}
	var in io.Reader = file
	switch filepath.Ext(name) {
	case ".gz":
		z, err := gzip.NewReader(file)
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		in, name = z, strings.TrimSuffix(name, ".gz")
	case ".zst":
		z, err := zstd.NewReader(file)
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		defer z.Close()
		in, name = z, strings.TrimSuffix(name, ".zst")
	}
	switch filepath.Ext(name) {
	case ".csv":
		return readCSV(ctx, path, in, emit)
	case ".json", ".jsonl", ".ndjson":
		return readJSON(ctx, path, in, emit)
	}
	return fmt.Errorf("dataset: %s: unknown kind of file, want .jsonl, .ndjson or .json (also .gz or .zst), .parquet or .csv", path)
}

type emitter = func(line int, fields map[string]any) bool

// readJSON reads a list or lines, whichever the first character says.
func readJSON(ctx context.Context, path string, in io.Reader, emit emitter) error {
	buffered := bufio.NewReaderSize(in, 1<<16)
	if mark, _ := buffered.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := buffered.Discard(3); err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
	}
	line := 1
	for {
		b, err := buffered.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dataset: %s:%d: %w", path, line, err)
		}
		switch b {
		case '\n':
			line++
			continue
		case ' ', '\t', '\r':
			continue
		}
		if err := buffered.UnreadByte(); err != nil {
			return fmt.Errorf("dataset: %s:%d: %w", path, line, err)
		}
		if b == '[' {
			return readList(ctx, path, line, buffered, emit)
		}
		return readLines(ctx, path, line, buffered, emit)
	}
}

func readLines(ctx context.Context, path string, line int, in *bufio.Reader, emit emitter) error {
	for ; ; line++ {
		data, readErr := in.ReadBytes('\n')
		last := errors.Is(readErr, io.EOF)
		if readErr != nil && !last {
			return fmt.Errorf("dataset: %s:%d: %w", path, line, readErr)
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			fields, err := object(data)
			if err != nil {
				return fmt.Errorf("dataset: %s:%d: %w", path, line, err)
			}
			if !emit(line, fields) {
				return nil
			}
		}
		if last {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func readList(ctx context.Context, path string, line int, in io.Reader, emit emitter) error {
	counter := lines.New(in, line)
	decoder := json.NewDecoder(counter)
	fail := func(err error) error {
		return fmt.Errorf("dataset: %s:%d: %w", path, counter.At(decoder.InputOffset()), err)
	}
	if _, err := decoder.Token(); err != nil {
		return fail(err)
	}
	for decoder.More() {
		var data json.RawMessage
		if err := decoder.Decode(&data); err != nil {
			return fail(unexpectedEnd(err))
		}
		at := counter.At(decoder.InputOffset() - int64(len(data)))
		fields, err := object(data)
		if err != nil {
			return fmt.Errorf("dataset: %s:%d: %w", path, at, err)
		}
		if !emit(at, fields) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return fail(unexpectedEnd(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fail(errors.New("text after the list"))
	}
	return nil
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// object decodes one JSON object.
func object(data []byte) (map[string]any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the record is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("the record is a %s, want an object", kind.Value)
		}
		return nil, fmt.Errorf("not a whole JSON object: %w", unexpectedEnd(err))
	}
	if fields == nil {
		return nil, errors.New("the record is null, want an object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return fields, nil
}

func readParquet(ctx context.Context, path string, file *os.File, emit emitter) (err error) {
	// The library panics on some damaged files; the reader's caller must not be blamed for it.
	calling := false
	defer func() {
		if calling {
			return
		}
		if cause := recover(); cause != nil {
			err = fmt.Errorf("dataset: %s: damaged Parquet file: %v", path, cause)
		}
	}()
	reader := parquet.NewGenericReader[any](file)
	defer reader.Close()
	rows := make([]any, 64)
	for n := 1; ; {
		count, readErr := reader.Read(rows)
		for _, row := range rows[:count] {
			data, err := json.Marshal(row)
			if err != nil {
				return fmt.Errorf("dataset: %s:%d: %w", path, n, err)
			}
			fields, err := object(data)
			if err != nil {
				return fmt.Errorf("dataset: %s:%d: %w", path, n, err)
			}
			calling = true
			more := emit(n, fields)
			calling = false
			if !more {
				return nil
			}
			n++
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("dataset: %s:%d: %w", path, n, readErr)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func readCSV(ctx context.Context, path string, in io.Reader, emit emitter) error {
	reader := csv.NewReader(in)
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		line, _ := reader.FieldPos(0)
		fields := make(map[string]any, len(row))
		for i, name := range header {
			if !utf8.ValidString(row[i]) {
				return fmt.Errorf("dataset: %s:%d: column %q is not valid UTF-8", path, line, name)
			}
			fields[strings.TrimSpace(name)] = row[i]
		}
		if !emit(line, fields) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
