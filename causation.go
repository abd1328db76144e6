package waybill

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// Suppress returns a context in which events are recorded and owed to nobody: for an
// import whose receipts were sent long ago. The reason is kept with each event, up to
// 255 bytes of it; without one, firing fails. Targets and due times are not asked.
func Suppress(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, suppressKey{}, reason)
}

type suppressKey struct{}

// suppressed returns the reason of the innermost Suppress, empty outside any.
func suppressed(ctx context.Context) (string, error) {
	reason, ok := ctx.Value(suppressKey{}).(string)
	if ok && reason == "" {
		return "", errors.New("suppress: the reason is empty; say why nobody is owed the event")
	}
	return cut(reason, maxNameLength), nil
}

// WithCorrelation returns a context in which events are fired under a correlation id:
// that of the request, say. It may come from a stranger: what no store keeps is
// replaced in it, and it is cut to 255 bytes. What receivers fire inherits it, and so on down the chain.
// Where nobody gives one, or an empty one, it is the id of the event that the chain
// began with.
func WithCorrelation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, cut(strings.TrimSpace(strings.Map(printable, id)), maxNameLength))
}

type correlationKey struct{}

// printable replaces control characters.
func printable(c rune) rune {
	if c < ' ' || c == 0x7f {
		return unicode.ReplacementChar
	}
	return c
}

// causedBy writes onto an event what caused it: within a receiver, the event that the
// receiver runs for, and that one's correlation id unless the receiver sets another.
func causedBy(ctx context.Context, event *PlannedEvent) {
	if d := DeliveryFrom(ctx); d != nil && d.Event != nil {
		event.CausationID, event.CorrelationID = d.Event.ID, d.Event.CorrelationID
		if event.CorrelationID == "" && d.Event.ID != 0 {
			event.CorrelationID = strconv.FormatInt(d.Event.ID, 10)
		}
	}
	if id, ok := ctx.Value(correlationKey{}).(string); ok && id != "" {
		event.CorrelationID = id
	}
}
