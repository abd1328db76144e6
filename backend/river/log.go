package river

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// quiet returns River's logger. River speaks of trouble with the database once for
// every try of every part of it; here each kind of line is a warning once a minute
// and a debug line otherwise. Nothing of it is an error: the rows are safe.
func quiet(logger *slog.Logger, told *told) *slog.Logger {
	return slog.New(quietHandler{logger.Handler(), told})
}

// quietTime is how long a kind of line is not repeated as a warning.
const quietTime = time.Minute

// told remembers when which kind of line was a warning.
type told struct {
	muted atomic.Bool // no line is a warning
	mu    sync.Mutex
	last  map[string]time.Time
}

func newTold() *told { return &told{last: make(map[string]time.Time)} }

type quietHandler struct {
	next slog.Handler
	told *told
}

func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	if level < slog.LevelWarn {
		level = slog.LevelDebug
	}
	return h.next.Enabled(ctx, level)
}

func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.next.WithAttrs(attrs), h.told}
}

func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.next.WithGroup(name), h.told}
}

func (h quietHandler) Handle(ctx context.Context, record slog.Record) error {
	level := slog.LevelDebug
	if record.Level >= slog.LevelWarn && !h.told.repeats(record.Message) {
		level = slog.LevelWarn
	}
	if !h.next.Enabled(ctx, level) {
		return nil
	}
	line := slog.NewRecord(record.Time, level, "river", record.PC)
	line.AddAttrs(slog.String("detail", record.Message))
	record.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "queue": // every line names it already
			return true
		case "err":
			attr.Key = "error"
		}
		line.AddAttrs(attr)
		return true
	})
	return h.next.Handle(ctx, line)
}

// repeats reports whether a line of this kind was a warning a short while ago.
func (t *told) repeats(message string) bool {
	if t.muted.Load() {
		return true
	}
	kind, _, _ := strings.Cut(message, "(") // what follows is of this one try
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if last, ok := t.last[kind]; ok && now.Sub(last) < quietTime {
		return true
	}
	t.last[kind] = now
	return false
}
