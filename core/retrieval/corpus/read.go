package corpus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/forage-rl/forage/core/internal/lines"
)

// readFile adds the documents of one source file.
func (b *builder) readFile(ctx context.Context, path string) error {
	b.files = append(b.files, path)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	name := strings.ToLower(filepath.Base(path))
	if strings.HasSuffix(name, ".parquet") {
		return b.readParquet(ctx, file)
	}
	var in io.Reader = file
	switch {
	case strings.HasSuffix(name, ".gz"):
		if in, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case strings.HasSuffix(name, ".zst"):
		decoder, err := zstd.NewReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer decoder.Close()
		in = decoder
	}
	text := bufio.NewReaderSize(in, 1<<18)
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		_, _ = text.Discard(3)
	}
	first, blank, err := firstByte(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if first == '[' {
		return b.readList(ctx, text)
	}
	if blank {
		return fmt.Errorf("%s:1: empty line", path)
	}
	return b.readLines(ctx, text)
}

// firstByte looks at the first byte that is no white space; blank says whether a line end stands before it.
func firstByte(in *bufio.Reader) (first byte, blank bool, err error) {
	for n := 1; ; n++ {
		head, err := in.Peek(n)
		if len(head) < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = errors.New("the file is empty")
			}
			return 0, blank, err
		}
		switch c := head[n-1]; c {
		case ' ', '\t', '\r':
		case '\n':
			blank = true
		default:
			return c, blank, nil
		}
	}
}

// here names the place of line (or row) n of the file being read.
func (b *builder) here(n int) string { return fmt.Sprintf("%s:%d", b.files[len(b.files)-1], n) }

func (b *builder) addRecord(data []byte, line int) error {
	documents, err := parseRecord(data)
	if err != nil {
		return fmt.Errorf("%s: %w", b.here(line), err)
	}
	for _, d := range documents {
		if b.limit > 0 && len(b.keyed) >= b.limit {
			return errFull
		}
		if err := b.add(d, place{uint32(len(b.files) - 1), uint32(line)}); err != nil {
			return fmt.Errorf("%s: %w", b.here(line), err)
		}
	}
	return nil
}

// readLines reads JSON Lines; a line may be of any length.
func (b *builder) readLines(ctx context.Context, in *bufio.Reader) error {
	var line []byte
	for n := 1; ; n++ {
		line = line[:0]
		for {
			part, err := in.ReadSlice('\n')
			line = append(line, part...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("%s: %w", b.here(n), err)
			}
			if errors.Is(err, io.EOF) && len(line) == 0 {
				return nil
			}
			break
		}
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 {
			return fmt.Errorf("%s: empty line", b.here(n))
		}
		if !utf8.Valid(trimmed) {
			return fmt.Errorf("%s: the line is not UTF-8", b.here(n))
		}
		if err := b.addRecord(trimmed, n); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// readList reads a JSON list of records without holding it whole.
func (b *builder) readList(ctx context.Context, in io.Reader) error {
	counter := lines.New(in, 1)
	decoder := json.NewDecoder(counter)
	fail := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		at := decoder.InputOffset()
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = max(at, syntax.Offset)
		}
		return fmt.Errorf("%s: malformed JSON: %w", b.here(counter.At(at)), err)
	}
	if _, err := decoder.Token(); err != nil {
		return fail(err)
	}
	for decoder.More() {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return fail(err)
		}
		line := counter.At(decoder.InputOffset() - int64(len(raw)))
		if !utf8.Valid(raw) {
			return fmt.Errorf("%s: the record is not UTF-8", b.here(line))
		}
		if err := b.addRecord(raw, line); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return fail(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: text after the list", b.here(counter.At(decoder.InputOffset())))
	}
	return nil
}

// readParquet reads rows with the columns that a JSON record has as fields. Rows are counted from 1, as lines are.
func (b *builder) readParquet(ctx context.Context, file *os.File) (err error) {
	// The library panics on some damaged files.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: damaged Parquet file: %v", file.Name(), cause)
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
				return fmt.Errorf("%s: row: %w", b.here(n), err)
			}
			if err := b.addRecord(data, n); err != nil {
				return err
			}
			n++
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("%s: %w", b.here(n), readErr)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
