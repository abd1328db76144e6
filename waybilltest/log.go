package waybilltest

import (
	"context"
	"log/slog"
	"slices"
	"testing"
)

// newLogger logs to the test's output: all that receivers say, and what is wrong.
func newLogger(t testing.TB) *slog.Logger {
	return slog.New(quiet{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})})
}

// quiet leaves out what relays and workers have to say of themselves.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := q.Handler.WithAttrs(attrs)
	if slices.ContainsFunc(attrs, func(attr slog.Attr) bool { return attr.Key == "delivery_id" }) {
		return with // the logger of a run
	}
	return quiet{with}
}

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
