package backendtest

import (
	"context"
	"log/slog"
	"sync"
)

// logCounter counts log lines by level.
type logCounter struct {
	mu    sync.Mutex
	lines map[slog.Level][]string
}

func (l *logCounter) Enabled(context.Context, slog.Level) bool { return true }
func (l *logCounter) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logCounter) WithGroup(string) slog.Handler            { return l }

func (l *logCounter) Handle(_ context.Context, record slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := record.Message
	record.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	if l.lines == nil {
		l.lines = make(map[slog.Level][]string)
	}
	l.lines[record.Level] = append(l.lines[record.Level], line)
	return nil
}

func (l *logCounter) at(level slog.Level) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines[level]...)
}
