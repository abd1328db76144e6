package waybill_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// carton is a declared event that hands bytes of its own to the encoder.
type carton struct {
	Label string
	Raw   json.RawMessage
}

// FuzzEnvelope: whatever is in an envelope, Plan returns, and what it accepts is something
// that every store can keep.
func FuzzEnvelope(f *testing.F) {
	f.Add(uint8(0), "order-7", "request-3", "trace", "00-ab", "import", int64(1773489600), int64(123456789), "carton.sent", 1, []byte(`{"a":1}`))
	f.Add(uint8(1), "", "", "", "", "", int64(0), int64(0), "raw", 0, []byte(`null`))
	f.Add(uint8(2), strings.Repeat("k", 256), "a\nb", "\xff", "\x00", "\x00\xff", int64(-62135596800), int64(0), "*", -1, []byte("\"\xff\""))
	f.Add(uint8(3), "\x00", " ", "a", "\xed\xa0\x80", strings.Repeat("é", 200), int64(253402300800), int64(-1), "a\x7f", 1<<31, []byte(`"\u0000"`))
	f.Add(uint8(4), "a", "b", "c", "d", "e", int64(1<<62), int64(1<<62), "", 7, []byte(`{`))
	f.Add(uint8(5), "ü", "\xff", "", "", "r", int64(-1<<63), int64(-1<<63), "carton.sent", 9, []byte(` [1,`+"\n"+`2] `))
	f.Add(uint8(2), "a", "", "", "label", "", int64(1), int64(999), "carton.sent", 2, []byte("{\"a\":\"\xc3\x28\"}"))
	f.Add(uint8(7), "", "", "", "", "", int64(-62167219200), int64(1), "raw", 2, []byte(nil))
	reg := waybill.NewRegistry()
	waybill.Declare[carton](reg, "carton.sent", waybill.EventOptions{Version: 2, Retention: waybill.Retention{Keep: time.Hour}})
	waybill.On(reg, "weigh", func(context.Context, carton) error { return nil }, waybill.Options{
		Targets: waybill.TargetsOf(func(_ context.Context, event carton) ([]string, error) { return []string{event.Label}, nil }),
	})
	if err := reg.Err(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind uint8, key, correlation, header, value, reason string, seconds, nanoseconds int64, name string, version int, payload []byte) {
		raw := waybill.RawEvent{Name: name, Version: version, Payload: payload, Headers: map[string]string{value: header}}
		sent := carton{Label: value, Raw: payload}
		envelope := waybill.Envelope{
			DedupeKey: key, CorrelationID: correlation, OccurredAt: time.Unix(seconds, nanoseconds), Headers: map[string]string{header: value},
		}
		events := []any{raw, &raw, sent, &sent, nil, (*carton)(nil), envelope, &envelope, payload, name}
		envelope.Event = events[int(kind)%len(events)]
		inside := waybill.WithCorrelation(waybill.WithDelivery(t.Context(), &waybill.Delivery{Event: &waybill.Event{ID: seconds}}), name)
		for _, ctx := range []context.Context{t.Context(), inside, waybill.Suppress(inside, reason)} {
			got, err := reg.Plan(ctx, nil, envelope)
			pointed, pointedErr := reg.Plan(ctx, nil, &envelope)
			if diff := cmp.Diff(got, pointed); diff != "" || (err == nil) != (pointedErr == nil) {
				t.Errorf("a pointer to the envelope is fired in another way: %v, %v\n%s", err, pointedErr, diff)
			}
			if err != nil {
				if diff := cmp.Diff(waybill.Plan{}, got); diff != "" {
					t.Errorf("refused with %v, and there is a plan:\n%s", err, diff)
				}
				continue
			}
			wantStorable(t, got)
		}
	})
}

// wantStorable fails unless every store has room for the plan as it is.
func wantStorable(t *testing.T, plan waybill.Plan) {
	t.Helper()
	event := plan.Event
	bounded := map[string]string{"name": event.Name, "dedupe key": event.DedupeKey, "correlation id": event.CorrelationID, "reason": event.Suppressed}
	texts := []string{string(event.Payload)}
	for what, text := range bounded {
		texts = append(texts, text)
		if len(text) > 255 {
			t.Errorf("the %s has %d bytes", what, len(text))
		}
	}
	for key, value := range event.Headers {
		texts = append(texts, key, value)
	}
	for _, d := range plan.Deliveries {
		texts = append(texts, d.Target)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("%q is planned, and no store keeps it", text)
		}
	}
	if !json.Valid(event.Payload) || event.Version < 1 || event.Version > 1<<31-1 || event.Name == "" || event.Name == waybill.AnyEvent {
		t.Errorf("event %q of version %d with payload %q is planned", event.Name, event.Version, event.Payload)
	}
	at := event.OccurredAt
	if year := at.Year(); year < 1 || year > 9999 || at.Nanosecond()%1000 != 0 {
		t.Errorf("an event that occurred at %s is planned", at)
	}
}
