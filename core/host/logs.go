package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// maxLogLine cuts what a plugin writes without a line end.
const maxLogLine = 256 << 10

// logLines copies a plugin's output line by line to raw (as it is) and to the logger (parsed) until it ends.
func logLines(r io.Reader, raw io.Writer, logger *slog.Logger) {
	lines := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			// A full disk must not stop a run that the log only describes.
			_, _ = raw.Write(line)
			logLine(strings.TrimRight(string(line), "\r\n"), logger)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// logLine passes on one line: a JSON object of hclog with its level and values, anything else as debug output, except
// the start of a crash.
func logLine(line string, logger *slog.Logger) {
	var fields map[string]any
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &fields) == nil {
		if message, ok := fields["@message"].(string); ok {
			level, _ := fields["@level"].(string)
			var attributes []any
			for key, value := range fields {
				if !strings.HasPrefix(key, "@") {
					attributes = append(attributes, slog.Any(key, value))
				}
			}
			logger.Log(context.Background(), logLevel(level), message, attributes...)
			return
		}
	}
	level := slog.LevelDebug
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "panic in a plugin: ") {
		level = slog.LevelError
	}
	logger.Log(context.Background(), level, line)
}

func logLevel(name string) slog.Level {
	switch strings.ToLower(name) {
	case "error":
		return slog.LevelError
	case "warn":
		return slog.LevelWarn
	case "info":
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// lockedWriter lets two streams share a log file.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
