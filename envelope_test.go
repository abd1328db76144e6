package waybill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// planIn is plan in a context that says something.
func planIn(ctx context.Context, t *testing.T, reg *waybill.Registry, event any) waybill.Plan {
	t.Helper()
	got, err := reg.Plan(ctx, nil, event)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantRefused fails unless firing is refused with all of it, and plans nothing.
func wantRefused(ctx context.Context, t *testing.T, reg *waybill.Registry, event any, says ...string) {
	t.Helper()
	got, err := reg.Plan(ctx, nil, event)
	wantErrSays(t, err, says...)
	if diff := cmp.Diff(waybill.Plan{}, got); err != nil && diff != "" {
		t.Errorf("a refused event has a plan:\n%s", diff)
	}
}

func rawOrder(headers map[string]string) waybill.RawEvent {
	return waybill.RawEvent{Name: "order.placed", Version: 1, Payload: json.RawMessage(`{"id":7}`), Headers: headers}
}

// An envelope with nothing on it is fired as its event is.
func TestEnvelopeFiresItsEvent(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail", "search")
	raw := rawOrder(map[string]string{"trace": "00-ab"})
	for _, c := range []struct {
		name  string
		event any
	}{
		{"a value", orderPlaced{ID: 7}},
		{"a pointer", &orderPlaced{ID: 7}},
		{"raw", raw},
		{"a pointer to raw", &raw},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := plan(t, reg, c.event)
			if len(want.Deliveries) != 2 {
				t.Fatalf("%d deliveries without an envelope, want 2", len(want.Deliveries))
			}
			if diff := cmp.Diff(want, plan(t, reg, waybill.Envelope{Event: c.event})); diff != "" {
				t.Errorf("in an envelope (-without +with):\n%s", diff)
			}
			if diff := cmp.Diff(want, plan(t, reg, &waybill.Envelope{Event: c.event})); diff != "" {
				t.Errorf("in a pointer to an envelope (-without +with):\n%s", diff)
			}
		})
	}
}

func TestEnvelopeIsRecordedBesideItsEvent(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	at := time.Date(2026, 3, 14, 12, 0, 0, 5000, time.UTC)
	got := plan(t, reg, waybill.Envelope{
		Event: orderPlaced{ID: 7}, DedupeKey: "order-7", OccurredAt: at, Headers: map[string]string{"trace": "00-ab"}, CorrelationID: "request-3",
	})
	want := waybill.Plan{
		Event: waybill.PlannedEvent{
			RawEvent: rawOrder(map[string]string{"trace": "00-ab"}), DedupeKey: "order-7", OccurredAt: at, CorrelationID: "request-3",
		},
		Deliveries: []waybill.PlannedDelivery{{Receiver: "mail", MaxAttempts: waybill.DefaultMaxAttempts}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// What is wrong within an envelope is told as it is without one.
func TestEnvelopeIsRefused(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	inner := waybill.Envelope{Event: orderPlaced{}}
	for _, c := range []struct {
		name  string
		fired any
		says  []string
	}{
		{"nil", (*waybill.Envelope)(nil), []string{"fire: the envelope is nil"}},
		{"empty", waybill.Envelope{DedupeKey: "a"}, []string{"fire: the envelope is empty: its Event is nil"}},
		{"an empty pointer", &waybill.Envelope{}, []string{"the envelope is empty"}},
		{"an envelope in it", waybill.Envelope{Event: inner}, []string{"fire: an envelope is in an envelope"}},
		{"a pointer to one in it", waybill.Envelope{Event: &inner}, []string{"an envelope is in an envelope"}},
		{"a nil one in it", &waybill.Envelope{Event: (*waybill.Envelope)(nil)}, []string{"an envelope is in an envelope"}},
		{"a nil pointer in it", waybill.Envelope{Event: (*orderPlaced)(nil)}, []string{"fire: the event is a nil *waybill_test.orderPlaced"}},
		{"an undeclared type in it", waybill.Envelope{Event: orderShipped{}}, []string{"waybill_test.orderShipped is not a declared event", "call waybill.Declare[orderShipped]("}},
		{"a list of events in it", waybill.Envelope{Event: []any{orderPlaced{}}}, []string{"[]interface {} is not a declared event"}},
		{"raw that is no JSON in it", waybill.Envelope{Event: waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`{`)}}, []string{"fire raw: the payload is not JSON"}},
		{"a header with a NUL", waybill.Envelope{Event: orderPlaced{}, Headers: map[string]string{"trace": "a\x00b"}},
			[]string{`fire order.placed: header "trace" holds text that is not UTF-8 or has a NUL`}},
		{"a header name that is not UTF-8", waybill.Envelope{Event: orderPlaced{}, Headers: map[string]string{"\xff": ""}}, []string{`header "\xff"`}},
	} {
		t.Run(c.name, func(t *testing.T) { wantRefused(t.Context(), t, reg, c.fired, c.says...) })
	}
}

func TestEnvelopeHeadersGoBesideTheEvents(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	for _, c := range []struct {
		name               string
		raw, envelope, all map[string]string
	}{
		{"none", nil, nil, nil},
		{"of the event", map[string]string{"a": "event"}, nil, map[string]string{"a": "event"}},
		{"of the envelope", nil, map[string]string{"a": "envelope"}, map[string]string{"a": "envelope"}},
		{"of both", map[string]string{"a": "event"}, map[string]string{"b": "envelope"}, map[string]string{"a": "event", "b": "envelope"}},
		{"one of both, as the envelope has it", map[string]string{"a": "event", "c": "event"}, map[string]string{"a": "envelope"},
			map[string]string{"a": "envelope", "c": "event"}},
		{"an empty one of the envelope counts", map[string]string{"a": "event"}, map[string]string{"a": ""}, map[string]string{"a": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, envelope := maps.Clone(c.raw), maps.Clone(c.envelope)
			event := rawOrder(raw)
			got := plan(t, reg, waybill.Envelope{Event: &event, Headers: envelope}).Event.Headers
			if diff := cmp.Diff(c.all, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]map[string]string{c.raw, c.envelope}, []map[string]string{raw, envelope}); diff != "" {
				t.Errorf("the caller's own headers changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiringLeavesTheEnvelopeAlone(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	filled := func() *waybill.Envelope {
		return &waybill.Envelope{Event: orderPlaced{ID: 7}, DedupeKey: "a", OccurredAt: time.Unix(1, 1), Headers: map[string]string{"a": "b"}, CorrelationID: "c"}
	}
	envelope := filled()
	for range 2 { // as a caller does whose transaction is tried again
		plan(t, reg, envelope)
	}
	if diff := cmp.Diff(filled(), envelope); diff != "" {
		t.Errorf("the envelope changed (-want +got):\n%s", diff)
	}
}

// Names beside an event have the bounds that the columns and indexes of every store have.
func TestKeysOfAnEnvelopeAreBounded(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	long := strings.Repeat("k", 256)
	for _, field := range []struct {
		what   string
		fired  func(text string) waybill.Envelope
		landed func(waybill.PlannedEvent) string
	}{
		{"dedupe key", func(text string) waybill.Envelope {
			return waybill.Envelope{Event: orderPlaced{}, DedupeKey: text}
		}, func(event waybill.PlannedEvent) string { return event.DedupeKey }},
		{"correlation id", func(text string) waybill.Envelope {
			return waybill.Envelope{Event: orderPlaced{}, CorrelationID: text}
		}, func(event waybill.PlannedEvent) string { return event.CorrelationID }},
	} {
		for _, c := range []struct {
			name, text string
			says       string // empty: it is kept as it is
		}{
			{"none", "", ""},
			{"the longest", long[:255], ""},
			{"the longest, of letters of two bytes", strings.Repeat("ü", 127), ""},
			{"white space and punctuation within", "order 7/ü?#\"'%", ""},
			{"over-long", long, "has 256 bytes, more than 255"},
			{"over-long in bytes alone", strings.Repeat("ü", 128), "has 256 bytes, more than 255"},
			{"NUL", "a\x00b", `"a\x00b" holds control characters or is not UTF-8`},
			{"newline", "a\nb", `"a\nb" holds control characters`},
			{"DEL", "a\x7fb", "holds control characters"},
			{"not UTF-8", "a\xffb", `"a\xffb" holds control characters or is not UTF-8`},
			{"white space around", "a ", `"a " begins or ends with white space`},
			{"white space alone", " ", `" " begins or ends with white space`},
		} {
			t.Run(field.what+", "+c.name, func(t *testing.T) {
				if c.says != "" {
					wantRefused(t.Context(), t, reg, field.fired(c.text), fmt.Sprintf("fire order.placed: the %s", field.what), c.says)
				} else if got := field.landed(plan(t, reg, field.fired(c.text)).Event); got != c.text {
					t.Errorf("recorded %q, want %q", got, c.text)
				}
			})
		}
	}
}

// moments are how times come out that an event may have occurred at, or a delivery be due.
var moments = []struct {
	name     string
	at, want time.Time
	refused  bool
}{
	{name: "none"},
	{name: "none, elsewhere", at: time.Time{}.In(time.FixedZone("", 3600))},
	{name: "to the microsecond", at: time.Date(2026, 3, 14, 12, 0, 0, 123456999, time.UTC), want: time.Date(2026, 3, 14, 12, 0, 0, 123456000, time.UTC)},
	{name: "in UTC", at: time.Date(2026, 3, 14, 12, 0, 0, 0, time.FixedZone("", -5*3600)), want: time.Date(2026, 3, 14, 17, 0, 0, 0, time.UTC)},
	{name: "the epoch", at: time.Unix(0, 0), want: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)},
	{name: "before the epoch", at: time.Unix(-1, 999_999_999), want: time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)},
	{name: "the first year", at: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), want: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
	{name: "the last moment", at: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), want: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)},
	{name: "the year 10000", at: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), refused: true},
	{name: "the year 10000 in UTC alone", at: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600)), refused: true},
	{name: "the year 0", at: time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC), refused: true},
	{name: "the year 0 in UTC alone", at: time.Date(1, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)), refused: true},
	{name: "no year at all", at: time.Unix(1<<62, 0), refused: true},
}

// wantMoment compares what a store will write: the wall clock's digits, and no other zone.
func wantMoment(t *testing.T, want, got time.Time) {
	t.Helper()
	if !got.Equal(want) || got.Location() != time.UTC && !got.IsZero() || got != got.Round(0) {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

func TestOccurredAt(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	for _, c := range moments {
		t.Run(c.name, func(t *testing.T) {
			fired := waybill.Envelope{Event: orderPlaced{}, OccurredAt: c.at}
			if c.refused {
				wantRefused(t.Context(), t, reg, fired, "fire order.placed: occurred at: "+c.at.String(), "is not between the years 1 and 9999")
				return
			}
			wantMoment(t, c.want, plan(t, reg, fired).Event.OccurredAt)
		})
	}
	now := time.Now() // with a monotonic reading, which no database keeps
	wantMoment(t, now.Truncate(time.Microsecond), plan(t, reg, waybill.Envelope{Event: orderPlaced{}, OccurredAt: now}).Event.OccurredAt)
}

func TestDuplicateErrorSaysWhichEventHasTheKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *waybill.DuplicateError
		says string
	}{
		{&waybill.DuplicateError{Key: "order-7", EventID: 12}, `dedupe key "order-7": event 12 has that key already`},
		{&waybill.DuplicateError{Key: "order-7"}, `dedupe key "order-7": an event has that key already`},
	} {
		if c.err.Error() != c.says {
			t.Errorf("it says %q, want %q", c.err, c.says)
		}
		wrapped := fmt.Errorf("fire order.placed: %w", c.err)
		var duplicate *waybill.DuplicateError
		if !errors.Is(wrapped, waybill.ErrDuplicate) || !errors.As(wrapped, &duplicate) || duplicate.Key != "order-7" {
			t.Errorf("%v is not recognised as a duplicate", wrapped)
		}
		if errors.Is(wrapped, context.Canceled) {
			t.Errorf("%v is every error", wrapped)
		}
	}
}

// Who is told of every event is told of it with what its envelope says.
func TestTargetsSeeTheHeadersOfAnEnvelope(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "audit", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{
		Targets: waybill.TargetsOf(func(_ context.Context, event waybill.RawEvent) ([]string, error) {
			return []string{event.Headers["tenant"] + event.Headers["trace"]}, nil
		}),
	})
	got := plan(t, reg, waybill.Envelope{
		Event: rawOrder(map[string]string{"trace": "00-ab"}), Headers: map[string]string{"tenant": "acme-"},
	})
	if len(got.Deliveries) != 1 || got.Deliveries[0].Target != "acme-00-ab" {
		t.Errorf("deliveries %+v, want one for acme-00-ab", got.Deliveries)
	}
}
