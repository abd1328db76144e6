package waybill_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// keeping declares orderPlaced with a retention.
func keeping(t *testing.T, retention waybill.Retention) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{Retention: retention})
	waybill.On(reg, "mail", ignore, waybill.Options{})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func TestRetentionIsCopiedToTheEvent(t *testing.T) {
	t.Parallel()
	raw := rawOrder(nil)
	other := waybill.RawEvent{Name: "order.archived", Payload: json.RawMessage(`1`)}
	for _, c := range []struct {
		name      string
		retention waybill.Retention
	}{
		{"none of its own", waybill.Retention{}},
		{"the shortest", waybill.Retention{Keep: time.Second}},
		{"the longest", waybill.Retention{Keep: (1<<31 - 1) * time.Second}},
		{"until it succeeded", waybill.Retention{Consumed: waybill.OnceSucceeded}},
		{"until it settled", waybill.Retention{Consumed: waybill.OnceSettled}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := keeping(t, c.retention)
			for _, fired := range []any{orderPlaced{}, &orderPlaced{}, raw, &raw, waybill.Envelope{Event: orderPlaced{}}, &waybill.Envelope{Event: &raw}} {
				if got := plan(t, reg, fired).Event.Retention; got != c.retention {
					t.Errorf("a %T has retention %+v, want %+v", fired, got, c.retention)
				}
			}
			suppressed := waybill.Suppress(t.Context(), "import")
			if got := planIn(suppressed, t, reg, orderPlaced{}).Event.Retention; got != c.retention {
				t.Errorf("suppressed it has retention %+v, want %+v", got, c.retention)
			}
			if got := plan(t, reg, other).Event.Retention; got != (waybill.Retention{}) {
				t.Errorf("an event of another name has retention %+v", got)
			}
		})
	}
}

// The key of an event that is deleted once it is consumed would go with it, and the event
// could be fired again the moment after.
// Trap 60: a key that goes with its event.
func TestDedupeKeyNeedsAnEventThatStays(t *testing.T) {
	t.Parallel()
	raw := rawOrder(nil)
	for _, c := range []struct {
		name      string
		retention waybill.Retention
		refused   bool
	}{
		{"none of its own", waybill.Retention{}, false},
		{"for a time", waybill.Retention{Keep: time.Hour}, false},
		{"until it succeeded", waybill.Retention{Consumed: waybill.OnceSucceeded}, true},
		{"until it settled", waybill.Retention{Consumed: waybill.OnceSettled}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := keeping(t, c.retention)
			for _, event := range []any{orderPlaced{}, &orderPlaced{}, raw, &raw} { // raw ones are fired under the declared name
				for _, ctx := range []context.Context{t.Context(), waybill.Suppress(t.Context(), "import")} {
					fired := waybill.Envelope{Event: event, DedupeKey: "order-7"}
					if c.refused {
						wantRefused(ctx, t, reg, fired, `fire order.placed: dedupe key "order-7"`,
							"deleted once it is consumed, and the key with it", "declare a retention that keeps it for a time")
					} else if got := planIn(ctx, t, reg, fired).Event; got.DedupeKey != "order-7" || got.Retention != c.retention {
						t.Errorf("a %T is recorded with key %q and retention %+v", event, got.DedupeKey, got.Retention)
					}
				}
				// Without a key it is fired whatever its retention.
				plan(t, reg, waybill.Envelope{Event: event})
			}
			other := waybill.RawEvent{Name: "order.archived", Payload: json.RawMessage(`1`)}
			if got := plan(t, reg, waybill.Envelope{Event: other, DedupeKey: "order-7"}).Event.DedupeKey; got != "order-7" {
				t.Errorf("an event of another name is recorded with key %q", got)
			}
		})
	}
}
