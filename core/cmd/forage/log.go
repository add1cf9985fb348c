package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// logger writes what a user should see of what goes on inside: warnings, and with --verbose everything.
func (a *app) logger(w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(&logHandler{out: w, level: level})
}

// logHandler prints a record as a line for people: "Warning: what happened (run=x plugin=y)".
type logHandler struct {
	out   io.Writer
	level slog.Level
	with  []slog.Attr
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements slog.Handler. The line is one write.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("Error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("Warning: ")
	}
	b.WriteString(r.Message)
	attrs := append([]slog.Attr(nil), h.with...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for i, a := range attrs {
		separator := " "
		if i == 0 {
			separator = " ("
		}
		fmt.Fprintf(&b, "%s%s=%v", separator, a.Key, a.Value)
	}
	if len(attrs) > 0 {
		b.WriteString(")")
	}
	b.WriteString("\n")
	_, err := io.WriteString(h.out, printable(b.String()))
	return err
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *h
	more.with = append(append([]slog.Attr(nil), h.with...), attrs...)
	return &more
}

// WithGroup implements slog.Handler: groups are not shown.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
