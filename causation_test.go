package waybill_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// running is the context of a receiver that runs for an event.
func running(ctx context.Context, event *waybill.Event) context.Context {
	return waybill.WithDelivery(ctx, &waybill.Delivery{ID: 42, Event: event})
}

// What is said nearest to the event counts: its envelope, then the context, then the event
// whose receiver fires it.
func TestCorrelationAndCausation(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	type facts struct {
		Correlation string
		Causation   int64
	}
	outside := context.Background()
	inside := running(outside, &waybill.Event{ID: 9, CorrelationID: "of the event"})
	chain := running(outside, &waybill.Event{ID: 9, CorrelationID: "3", CausationID: 5})
	for _, c := range []struct {
		name     string
		ctx      context.Context
		envelope string
		want     facts
	}{
		{"nobody gives one", outside, "", facts{}},
		{"the envelope", outside, "envelope", facts{"envelope", 0}},
		{"the context", waybill.WithCorrelation(outside, "context"), "", facts{"context", 0}},
		{"the inner context", waybill.WithCorrelation(waybill.WithCorrelation(outside, "outer"), "inner"), "", facts{"inner", 0}},
		{"the envelope before the context", waybill.WithCorrelation(outside, "context"), "envelope", facts{"envelope", 0}},
		{"an empty one in the context is none", waybill.WithCorrelation(outside, ""), "", facts{}},
		{"within a receiver", inside, "", facts{"of the event", 9}},
		{"within a receiver, the context", waybill.WithCorrelation(inside, "context"), "", facts{"context", 9}},
		{"within a receiver, an empty one in the context", waybill.WithCorrelation(inside, ""), "", facts{"of the event", 9}},
		{"within a receiver, the context around it", running(waybill.WithCorrelation(outside, "context"), &waybill.Event{ID: 9, CorrelationID: "of the event"}), "",
			facts{"context", 9}},
		{"within a receiver, the envelope", inside, "envelope", facts{"envelope", 9}},
		{"within a receiver, all three", waybill.WithCorrelation(inside, "context"), "envelope", facts{"envelope", 9}},
		{"further down the chain", chain, "", facts{"3", 9}},
		{"within a receiver of the first event", running(outside, &waybill.Event{ID: 9}), "", facts{"9", 9}},
		{"within a receiver of an event that was never stored", running(outside, &waybill.Event{Name: "order.placed"}), "", facts{}},
		{"within a run without an event", running(outside, nil), "", facts{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, ctx := range []context.Context{c.ctx, waybill.Suppress(c.ctx, "import")} {
				event := planIn(ctx, t, reg, waybill.Envelope{Event: orderPlaced{}, CorrelationID: c.envelope}).Event
				if diff := cmp.Diff(c.want, facts{event.CorrelationID, event.CausationID}); diff != "" {
					t.Errorf("in an envelope (-want +got):\n%s", diff)
				}
				if c.envelope != "" {
					continue
				}
				event = planIn(ctx, t, reg, orderPlaced{}).Event
				if diff := cmp.Diff(c.want, facts{event.CorrelationID, event.CausationID}); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Call is what puts the delivery there.
func TestWhatAReceiverFiresIsCausedByItsEvent(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	waybill.Declare[orderShipped](reg, "order.shipped", waybill.EventOptions{})
	var fired waybill.Plan
	waybill.On(reg, "ship", func(ctx context.Context, order orderPlaced) (err error) {
		fired, err = reg.Plan(ctx, nil, orderShipped{ID: order.ID})
		return err
	}, waybill.Options{})
	receiver, ok := reg.Receiver("ship")
	if !ok {
		t.Fatal(reg.Err())
	}
	d := deliveryOf(`{"id":7}`)
	d.Event.ID = 9
	if err := receiver.Call(t.Context(), nil, d); err != nil {
		t.Fatal(err)
	}
	if fired.Event.CausationID != 9 || fired.Event.CorrelationID != "9" {
		t.Errorf("event %+v, want it caused by event 9, in the chain that event 9 began", fired.Event)
	}
}

// It may be a header of a stranger's request, which must not fail an order.
func TestCorrelationOfTheContextIsMadeStorable(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	longest := strings.Repeat("c", 255)
	for id, want := range map[string]string{
		longest:       longest,
		longest + "c": longest[:252] + "…",
		"a\x00":       "a\uFFFD",
		"a\r\nb":      "a\uFFFD\uFFFDb",
		"\xff":        "\uFFFD",
		" a ":         "a",
		"":            "",
		" ":           "",
	} {
		ctx := waybill.WithCorrelation(t.Context(), id)
		if got := planIn(ctx, t, reg, orderPlaced{}).Event.CorrelationID; got != want {
			t.Errorf("of %q is recorded %q, want %q", id, got, want)
		}
	}
}

func TestSuppressKeepsTheReason(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	long := strings.Repeat("é", 128) // 256 bytes
	for _, c := range []struct {
		name, reason, want string
	}{
		{"as it is", "import of 2019", "import of 2019"},
		{"of several lines", "import\nof 2019", "import\nof 2019"},
		{"the longest", strings.Repeat("r", 255), strings.Repeat("r", 255)},
		{"longer", strings.Repeat("r", 256), strings.Repeat("r", 252) + "…"},
		{"cut between letters", "a" + long, "a" + long[:250] + "…"},
		{"made storable", "a\x00b\xffc", "a\uFFFDb\uFFFDc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := planIn(waybill.Suppress(t.Context(), c.reason), t, reg, orderPlaced{ID: 7})
			if diff := cmp.Diff(waybill.Plan{Event: waybill.PlannedEvent{RawEvent: rawOrder(nil), Suppressed: c.want}}, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if len(got.Event.Suppressed) > 255 || !utf8.ValidString(got.Event.Suppressed) {
				t.Errorf("%d bytes are recorded, valid UTF-8: %t", len(got.Event.Suppressed), utf8.ValidString(got.Event.Suppressed))
			}
		})
	}
}

func TestSuppressIsOfTheInnermost(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	outer := waybill.Suppress(t.Context(), "import")
	for reason, ctx := range map[string]context.Context{
		"":       t.Context(),
		"import": outer,
		"replay": waybill.Suppress(outer, "replay"),
	} {
		got := planIn(ctx, t, reg, orderPlaced{})
		if got.Event.Suppressed != reason || len(got.Deliveries) == 0 != (reason != "") {
			t.Errorf("suppressed for %q and owed to %d, want the reason %q", got.Event.Suppressed, len(got.Deliveries), reason)
		}
	}
	// No reason does not lift the outer one: it is a mistake.
	for _, ctx := range []context.Context{waybill.Suppress(t.Context(), ""), waybill.Suppress(outer, "")} {
		wantRefused(ctx, t, reg, orderPlaced{}, "fire order.placed: suppress: the reason is empty; say why nobody is owed the event")
	}
}

// The functions may call what an import must not: they might read rows that are not there
// yet, or fail.
func TestSuppressAsksNobody(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	asked := 0
	waybill.On(reg, "fan", ignore, waybill.Options{
		Targets: waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) {
			asked++
			return nil, errors.New("no address book")
		}),
	})
	waybill.On(reg, "later", ignore, waybill.Options{
		Due: waybill.DueOf(func(context.Context, orderPlaced) (time.Time, error) {
			asked++
			return time.Time{}, errors.New("no calendar")
		}),
	})
	planIn(waybill.Suppress(t.Context(), "import"), t, reg, orderPlaced{})
	if asked != 0 {
		t.Errorf("%d functions were called", asked)
	}
	if _, err := reg.Plan(t.Context(), nil, orderPlaced{}); err == nil {
		t.Error("without Suppress nobody was asked either")
	}
}

// What is on a suppressed event's envelope is kept, and checked, all the same.
func TestSuppressKeepsTheEnvelope(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	ctx := waybill.Suppress(waybill.WithCorrelation(t.Context(), "import-3"), "import")
	at := time.Date(2019, 1, 2, 3, 4, 5, 0, time.UTC)
	got := planIn(ctx, t, reg, waybill.Envelope{Event: orderPlaced{ID: 7}, DedupeKey: "order-7", OccurredAt: at, Headers: map[string]string{"a": "b"}})
	want := waybill.PlannedEvent{
		RawEvent: rawOrder(map[string]string{"a": "b"}), DedupeKey: "order-7", OccurredAt: at, CorrelationID: "import-3", Suppressed: "import",
	}
	if diff := cmp.Diff(want, got.Event); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	wantRefused(ctx, t, reg, waybill.Envelope{Event: orderPlaced{}, DedupeKey: "\n"}, "the dedupe key")
}
