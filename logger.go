package waybill

import (
	"context"
	"log/slog"
)

type loggerKey struct{}

// carriedLogger is a logger in a context, and the delivery whose attributes its lines
// carry already.
type carriedLogger struct {
	logger *slog.Logger
	of     *Delivery
}

// WithLogger returns a context whose LoggerFrom is that logger. Put in outside a run, as
// a worker does with its own, it gets the attributes of each delivery that runs under
// the context. Put in within a run it is returned as it is, so that one who
// adds to a run's logger starts with LoggerFrom.
func WithLogger(ctx context.Context, logger *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, carriedLogger{logger, DeliveryFrom(ctx)})
}

// LoggerFrom returns the logger of the run under ctx: the worker's own, whose lines
// carry delivery_id, receiver, event, event_id, attempt and, in a fan-out, target. Where
// no worker runs the receiver it is slog.Default() with the same, and outside a
// run slog.Default().
//
// The logger is made at each call; a receiver that logs much keeps it.
func LoggerFrom(ctx context.Context) *slog.Logger {
	carried, _ := ctx.Value(loggerKey{}).(carriedLogger)
	logger := carried.logger
	if logger == nil {
		logger = slog.Default()
	}
	d := DeliveryFrom(ctx)
	if d == nil || carried.logger != nil && carried.of != nil && carried.of.ID == d.ID {
		return logger
	}
	return logger.With(d.logAttributes()...)
}

func (d *Delivery) logAttributes() []any {
	attributes := []any{"delivery_id", d.ID, "receiver", d.Receiver}
	if d.Event != nil {
		attributes = append(attributes, "event", d.Event.Name, "event_id", d.Event.ID)
	}
	attributes = append(attributes, "attempt", d.Attempt)
	if d.Target != "" {
		attributes = append(attributes, "target", d.Target)
	}
	return attributes
}
