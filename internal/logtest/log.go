// Package logtest keeps what is logged, for tests to look at.
package logtest

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Log keeps the lines of one logger. It may be used from any goroutine.
type Log struct {
	mu  sync.Mutex
	all []string
}

// New returns a logger of every level, and the log that keeps its lines as text.
func New() (*slog.Logger, *Log) {
	kept := &Log{}
	return slog.New(slog.NewTextHandler(kept, &slog.HandlerOptions{Level: slog.LevelDebug})), kept
}

// Write keeps a line; a slog handler writes each in one call.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

// Lines returns the lines that hold every one of the parts.
func (l *Log) Lines(parts ...string) []string {
	var found []string
	for _, line := range l.lines() {
		lacks := func(part string) bool { return !strings.Contains(line, part) }
		if !slices.ContainsFunc(parts, lacks) {
			found = append(found, line)
		}
	}
	return found
}

// Want fails the test unless exactly n lines hold every one of the parts.
func (l *Log) Want(t testing.TB, n int, parts ...string) {
	t.Helper()
	if found := l.Lines(parts...); len(found) != n {
		t.Errorf("%d lines with %q, want %d; the log:\n%s", len(found), parts, n, strings.Join(l.lines(), ""))
	}
}

func (l *Log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
