package waybill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// upgraded declares orderPlaced in version 3, with one receiver.
func upgraded(t *testing.T, upgrade func(payload json.RawMessage, from int) (json.RawMessage, error)) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{Version: 3, Upgrade: upgrade})
	waybill.On(reg, "mail", ignore, waybill.Options{})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

// recorded is a delivery of an event that was recorded in a version.
func recorded(version int, payload string) *waybill.Delivery {
	d := deliveryOf(payload)
	d.Event.Version = version
	return d
}

// toNotes is an upgrade that tells from which version it was called.
func toNotes(payload json.RawMessage, from int) (json.RawMessage, error) {
	var old struct{ Number int }
	if err := json.Unmarshal(payload, &old); err != nil {
		return nil, err
	}
	return json.Marshal(orderPlaced{ID: old.Number, Notes: fmt.Sprintf("from %d", from)})
}

// Trap 73: the payload of an older version.
func TestOlderPayloadsAreUpgraded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version int
		payload string
		want    orderPlaced
	}{
		{"of the first version", 1, `{"Number":7}`, orderPlaced{ID: 7, Notes: "from 1"}},
		{"of the version before", 2, `{"Number":7}`, orderPlaced{ID: 7, Notes: "from 2"}},
		{"of the declared version", 3, `{"id":7}`, orderPlaced{ID: 7}},
		{"of a later version", 4, `{"id":7}`, orderPlaced{ID: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := recorded(c.version, c.payload)
			got, err := waybill.Decode[orderPlaced](upgraded(t, toNotes), d)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			if string(d.Event.Payload) != c.payload || d.Event.Version != c.version {
				t.Errorf("what was recorded is now %s of version %d", d.Event.Payload, d.Event.Version)
			}
		})
	}
	// Without an upgrade an older payload is decoded as it is.
	if got, err := waybill.Decode[orderPlaced](upgraded(t, nil), recorded(1, `{"id":7}`)); err != nil || got.ID != 7 {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

// Receivers of both shapes, targets and due times are given what Decode returns.
func TestEveryoneIsGivenTheUpgradedEvent(t *testing.T) {
	t.Parallel()
	want := orderPlaced{ID: 7, Notes: "from 2"}
	var seen []orderPlaced
	see := func(event orderPlaced) { seen = append(seen, event) }
	reg := upgraded(t, toNotes)
	waybill.On(reg, "plain", func(_ context.Context, event orderPlaced) error { see(event); return nil }, waybill.Options{
		Targets: waybill.TargetsOf(func(_ context.Context, event orderPlaced) ([]string, error) { see(event); return []string{"a"}, nil }),
		Due:     waybill.DueOf(func(_ context.Context, event orderPlaced) (time.Time, error) { see(event); return time.Time{}, nil }),
	})
	waybill.OnTx(reg, "stock", "pgx.Tx", func(_ context.Context, _ any, event orderPlaced) error { see(event); return nil }, waybill.Options{})
	for _, key := range []string{"plain", "stock"} {
		receiver, ok := reg.Receiver(key)
		if !ok {
			t.Fatal(reg.Err())
		}
		if err := receiver.Call(t.Context(), "tx", recorded(2, `{"Number":7}`)); err != nil {
			t.Error(err)
		}
	}
	old := waybill.RawEvent{Name: "order.placed", Version: 2, Payload: json.RawMessage(`{"Number":7}`)}
	got := plan(t, reg, waybill.Envelope{Event: old})
	if diff := cmp.Diff(old, got.Event.RawEvent); diff != "" {
		t.Errorf("what is recorded is not what was fired (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]orderPlaced{want, want, want, want}, seen); diff != "" {
		t.Errorf("events of the two receivers, the targets and the due time (-want +got):\n%s", diff)
	}
	// A value of the Go type is of the declared version, and upgraded by nobody.
	seen = nil
	plan(t, reg, orderPlaced{ID: 8})
	if diff := cmp.Diff([]orderPlaced{{ID: 8}, {ID: 8}}, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Trap 73: an upgrade that returns nothing.
func TestAnUpgradeThatFailsIsPermanent(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such currency")
	returns := func(payload string, err error) func(json.RawMessage, int) (json.RawMessage, error) {
		return func(json.RawMessage, int) (json.RawMessage, error) { return json.RawMessage(payload), err }
	}
	const upgrade = "upgrade payload of order.placed from version 2 to 3: "
	for _, c := range []struct {
		name    string
		upgrade func(json.RawMessage, int) (json.RawMessage, error)
		is      error
		says    string
	}{
		{"an error", returns("", broken), broken, upgrade + "no such currency"},
		{"an error beside a payload", returns(`{"id":7}`, broken), broken, upgrade + "no such currency"},
		{"an error that asks for another attempt", returns("", waybill.RetryAfter(time.Second)), nil, upgrade + "retry after 1s"},
		{"nothing", returns("", nil), nil, upgrade + "the upgrade returned no payload"},
		{"no JSON", returns(`{"id":`, nil), nil, "decode payload of order.placed as waybill_test.orderPlaced: "},
		{"JSON of another shape", returns(`{"id":"seven"}`, nil), nil, "decode payload of order.placed as waybill_test.orderPlaced: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := upgraded(t, c.upgrade)
			_, err := waybill.Decode[orderPlaced](reg, recorded(2, `{"Number":7}`))
			wantErrSays(t, err, c.says)
			if !waybill.IsPermanent(err) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v: want a permanent one that wraps %v", err, c.is)
			}
			receiver, _ := reg.Receiver("mail")
			d := recorded(2, `{"Number":7}`)
			if got := waybill.Judge(receiver, d, receiver.Call(t.Context(), nil, d), time.Time{}, 0).Status; got != waybill.Dead {
				t.Errorf("the delivery is %s, want dead", got)
			}
			// When it is fired the caller's change must not commit.
			waybill.On(reg, "fan", ignore, waybill.Options{Targets: toAll("a")})
			old := waybill.RawEvent{Name: "order.placed", Version: 2, Payload: json.RawMessage(`{"Number":7}`)}
			wantRefused(t.Context(), t, reg, old, `fire order.placed: targets of receiver "fan": `+c.says)
		})
	}
}

// An upgrade that works in the bytes it is given changes no event that others run for, and
// none that is about to be recorded.
func TestAnUpgradeMayWriteInWhatItIsGiven(t *testing.T) {
	t.Parallel()
	reg := upgraded(t, func(payload json.RawMessage, _ int) (json.RawMessage, error) {
		return append(payload[:len(payload)-1], `,"notes":"none"}`...), nil
	})
	roomy := func() []byte { return append(make([]byte, 0, 100), `{"id":7}`...) }
	d := recorded(2, "")
	d.Event.Payload = roomy()
	want := orderPlaced{ID: 7, Notes: "none"}
	for range 2 {
		if got, err := waybill.Decode[orderPlaced](reg, d); err != nil || got != want {
			t.Errorf("decoded %+v, %v; want %+v", got, err, want)
		}
	}
	if string(d.Event.Payload) != `{"id":7}` {
		t.Errorf("the delivery's event is now %s", d.Event.Payload)
	}
	waybill.On(reg, "fan", ignore, waybill.Options{Targets: toAll("a")})
	old := waybill.RawEvent{Name: "order.placed", Version: 2, Payload: roomy()}
	if got := plan(t, reg, old).Event.Payload; string(got) != `{"id":7}` {
		t.Errorf("%s is recorded", got)
	}
}

// A receiver of any event may read those as a type that nobody declares; there is nothing
// to upgrade them to.
func TestDecodeOfAnUndeclaredType(t *testing.T) {
	t.Parallel()
	reg := upgraded(t, toNotes)
	for version := range 5 {
		got, err := waybill.Decode[orderShipped](reg, recorded(version, `{"id":7}`))
		if err != nil || got.ID != 7 {
			t.Errorf("version %d: decoded %+v, %v", version, got, err)
		}
	}
	loose, err := waybill.Decode[map[string]any](reg, recorded(1, `{"id":7}`))
	if err != nil || loose["id"] != 7.0 {
		t.Errorf("decoded %v, %v", loose, err)
	}
	raw, err := waybill.Decode[json.RawMessage](reg, recorded(1, ` {"id": 7}`))
	if err != nil || string(raw) != `{"id": 7}` {
		t.Errorf("decoded %s, %v", raw, err)
	}
	_, err = waybill.Decode[orderShipped](reg, recorded(1, `[]`))
	wantErrSays(t, err, "decode payload of order.placed as waybill_test.orderShipped")
	if !waybill.IsPermanent(err) {
		t.Errorf("error %v, want a permanent one", err)
	}
}

func TestRefusesWhatAnotherReleaseKnows(t *testing.T) {
	t.Parallel()
	reg := upgraded(t, toNotes)
	waybill.OnAny(reg, "audit", ignoreAny, waybill.Options{})
	reg.Add(waybill.Receiver{Key: "legacy", Event: "order.archived", Run: ignoreAny})
	reg.Add(waybill.Receiver{Key: "hook", Event: "order.placed", Run: ignoreAny})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	const renamed = "receiver is not declared for the event: renamed?"
	for _, c := range []struct {
		name, receiver, event string
		version               int
		want                  string
	}{
		{"the declared version", "mail", "order.placed", 3, ""},
		{"an older version", "mail", "order.placed", 1, ""},
		{"a newer version", "mail", "order.placed", 4, "event is of version 4, newer than the declared 3: fired by a later release?"},
		{"another name", "mail", "order.made", 1, renamed},
		{"another name, of a newer version", "mail", "order.made", 9, renamed},
		{"a receiver of any event", "audit", "order.placed", 3, ""},
		{"a receiver of any event, of a newer version", "audit", "order.placed", 4, ""},
		{"a receiver of any event, of one nobody declares", "audit", "order.made", 9, ""},
		{"a receiver of the payload as it is, of a newer version", "hook", "order.placed", 4, ""},
		{"an event that no Go type is", "legacy", "order.archived", 9, ""},
		{"another event than one that no Go type is", "legacy", "order.placed", 3, renamed},
	} {
		t.Run(c.name, func(t *testing.T) {
			receiver, ok := reg.Receiver(c.receiver)
			if !ok {
				t.Fatalf("receiver %q is not declared", c.receiver)
			}
			if got := reg.Refuses(receiver, &waybill.Event{Name: c.event, Version: c.version}); got != c.want {
				t.Errorf("refused for %q, want %q", got, c.want)
			}
		})
	}
}
