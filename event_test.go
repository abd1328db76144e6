package waybill_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

type orderPlaced struct {
	ID    int    `json:"id"`
	Notes string `json:"notes,omitempty"`
}

type orderShipped struct {
	ID int `json:"id"`
}

// sealed encodes itself, by a method on its pointer.
type sealed struct{ secret string }

func (s *sealed) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"length": len(s.secret)})
}

type unencodable struct{ Pipe chan int }

// orders declares orderPlaced with one receiver for each key.
func orders(t *testing.T, keys ...string) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	for _, key := range keys {
		waybill.On(reg, key, func(context.Context, orderPlaced) error { return nil }, waybill.Options{})
	}
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func unchanged(payload json.RawMessage, _ int) (json.RawMessage, error) { return payload, nil }

// Trap 62: a retention of parts of a second.
func TestDeclareRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name    string
		declare func(*waybill.Registry)
		says    []string // nil: nothing is wrong
	}{
		{"nothing wrong", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 3})
		}, nil},
		{"the same twice", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{})
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 1})
		}, nil},
		{"the longest name", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, long[:255], waybill.EventOptions{})
		}, nil},
		{"one type, two names", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{})
			waybill.Declare[orderPlaced](r, "order.made", waybill.EventOptions{})
		}, []string{"waybill_test.orderPlaced", `"order.made"`, `declared as "order.placed" already`}},
		{"one type, two versions", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{})
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 2})
		}, []string{"waybill_test.orderPlaced", `declared as "order.placed" already`}},
		{"two types, one name", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{})
			waybill.Declare[orderShipped](r, "order.placed", waybill.EventOptions{})
		}, []string{"waybill_test.orderShipped", "waybill_test.orderPlaced has that name already"}},
		{"no name", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "", waybill.EventOptions{})
		}, []string{"waybill_test.orderPlaced", "event name is empty"}},
		{"every event", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "*", waybill.EventOptions{})
		}, []string{`"*" stands for every event`}},
		{"negative version", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: -1})
		}, []string{"version -1 is negative"}},
		{"over-long name", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, long, waybill.EventOptions{})
		}, []string{"256 bytes, more than 255"}},
		{"control character", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order\nplaced", waybill.EventOptions{})
		}, []string{`"order\nplaced"`, "control characters"}},
		{"version no column holds", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 1 << 31})
		}, []string{"version 2147483648 is above 2147483647"}},
		{"upgrade to the first version", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Upgrade: unchanged})
		}, []string{"it upgrades, and there is no version before 1"}},
		{"pointer", func(r *waybill.Registry) {
			waybill.Declare[*orderPlaced](r, "order.placed", waybill.EventOptions{})
		}, []string{"*waybill_test.orderPlaced", "declare waybill_test.orderPlaced, and fire either"}},
		{"interface", func(r *waybill.Registry) {
			waybill.Declare[any](r, "order.placed", waybill.EventOptions{})
		}, []string{"it is an interface"}},
		{"envelope", func(r *waybill.Registry) {
			waybill.Declare[waybill.Envelope](r, "order.placed", waybill.EventOptions{})
		}, []string{"without declaring it"}},
		{"two retentions", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Retention: waybill.Retention{Keep: time.Hour, Consumed: waybill.OnceSettled}})
		}, []string{"kept for 1h0m0s or until it is consumed, not both"}},
		{"retention of no whole seconds", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Retention: waybill.Retention{Keep: 1500 * time.Millisecond}})
		}, []string{"retention 1.5s: want whole seconds"}},
		{"negative retention", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Retention: waybill.Retention{Keep: -time.Second}})
		}, []string{"retention -1s"}},
		{"retention no column holds", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Retention: waybill.Retention{Keep: 1 << 31 * time.Second}})
		}, []string{"want whole seconds, from 1s to"}},
		{"unknown consumption", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Retention: waybill.Retention{Consumed: "read"}})
		}, []string{`consumed "read" is neither "succeeded" nor "settled"`}},
		{"the same twice, with an upgrade", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 2, Upgrade: unchanged})
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 2, Upgrade: unchanged})
		}, nil},
		{"one type, with an upgrade and without", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 2})
			waybill.Declare[orderPlaced](r, "order.placed", waybill.EventOptions{Version: 2, Upgrade: unchanged})
		}, []string{`declared as "order.placed" already`}},
		{"NUL", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order\x00placed", waybill.EventOptions{})
		}, []string{"control characters"}},
		{"not UTF-8", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, "order\xff", waybill.EventOptions{})
		}, []string{"not UTF-8"}},
		{"white space around", func(r *waybill.Registry) {
			waybill.Declare[orderPlaced](r, " order.placed", waybill.EventOptions{})
		}, []string{`" order.placed"`, "white space"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := waybill.NewRegistry()
			c.declare(reg)
			wantErrSays(t, reg.Err(), c.says...)
		})
	}
}

// wantErrSays fails unless err says all of it; with nothing to say, unless it is
// nil.
func wantErrSays(t *testing.T, err error, says ...string) {
	t.Helper()
	if len(says) == 0 && err != nil {
		t.Errorf("error %v, want none", err)
	}
	for _, part := range says {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one that says %q", err, part)
		}
	}
}

func TestRegistryTellsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "", waybill.EventOptions{})
	waybill.Declare[orderShipped](reg, "*", waybill.EventOptions{})
	waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return nil }, waybill.Options{})
	wantErrSays(t, reg.Err(), "orderPlaced: the event name is empty", "orderShipped", `receiver "mail"`)
}

// plan is Registry.Plan with what no test here is about.
func plan(t *testing.T, reg *waybill.Registry, event any) waybill.Plan {
	t.Helper()
	got, err := reg.Plan(context.Background(), nil, event)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFiredValueIsRecorded(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.Declare[orderShipped](reg, "order.shipped", waybill.EventOptions{Version: 4})
	waybill.Declare[sealed](reg, "letter.sealed", waybill.EventOptions{})
	waybill.Declare[int](reg, "counter.set", waybill.EventOptions{})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	raw := waybill.RawEvent{
		Name: "raw", Version: 2, Payload: json.RawMessage(" {\"z\":1, \"a\":\"\\u0000\"}\n"),
		Headers: map[string]string{"trace": "00-ab"},
	}
	for _, c := range []struct {
		name  string
		fired any
		want  waybill.RawEvent
	}{
		{"a value", orderPlaced{ID: 7, Notes: "<&> ü"},
			waybill.RawEvent{Name: "order.placed", Version: 1, Payload: json.RawMessage("{\"id\":7,\"notes\":\"\\u003c\\u0026\\u003e ü\"}")}},
		{"a pointer", &orderPlaced{ID: 7}, waybill.RawEvent{Name: "order.placed", Version: 1, Payload: json.RawMessage(`{"id":7}`)}},
		{"a declared version", orderShipped{ID: 8}, waybill.RawEvent{Name: "order.shipped", Version: 4, Payload: json.RawMessage(`{"id":8}`)}},
		{"no struct", 17, waybill.RawEvent{Name: "counter.set", Version: 1, Payload: json.RawMessage(`17`)}},
		{"a pointer that encodes itself", &sealed{"12345"}, waybill.RawEvent{Name: "letter.sealed", Version: 1, Payload: json.RawMessage(`{"length":5}`)}},
		{"its value likewise", sealed{"12345"}, waybill.RawEvent{Name: "letter.sealed", Version: 1, Payload: json.RawMessage(`{"length":5}`)}},
		{"raw, byte for byte", raw, raw},
		{"a pointer to raw", &raw, raw},
		{"raw of no version", waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`null`)}, waybill.RawEvent{Name: "raw", Version: 1, Payload: json.RawMessage(`null`)}},
		{"raw of a declared name", waybill.RawEvent{Name: "order.placed", Payload: json.RawMessage(`[]`)}, waybill.RawEvent{Name: "order.placed", Version: 1, Payload: json.RawMessage(`[]`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(waybill.PlannedEvent{RawEvent: c.want}, plan(t, reg, c.fired).Event); diff != "" {
				t.Errorf("recorded event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFireRefuses(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	waybill.Declare[unencodable](reg, "pipe.laid", waybill.EventOptions{})
	pointer := &orderPlaced{}
	for _, c := range []struct {
		name  string
		fired any
		says  []string
	}{
		{"nil", nil, []string{"the event is nil"}},
		{"a nil pointer", (*orderPlaced)(nil), []string{"nil *waybill_test.orderPlaced"}},
		{"a nil raw event", (*waybill.RawEvent)(nil), []string{"nil *waybill.RawEvent"}},
		{"an undeclared type", orderShipped{}, []string{"waybill_test.orderShipped is not a declared event", "call waybill.Declare[orderShipped](registry"}},
		{"a pointer to an undeclared type", &orderShipped{}, []string{"call waybill.Declare[orderShipped]("}},
		{"a pointer to a pointer", &pointer, []string{"*waybill_test.orderPlaced is not a declared event"}},
		{"what JSON cannot say", unencodable{}, []string{"fire pipe.laid: encode payload", "chan int"}},
		{"raw without a name", waybill.RawEvent{Payload: json.RawMessage(`1`)}, []string{"event name is empty"}},
		{"raw of every name", waybill.RawEvent{Name: "*", Payload: json.RawMessage(`1`)}, []string{`"*" stands for every event`}},
		{"raw with a bad name", waybill.RawEvent{Name: "a\tb", Payload: json.RawMessage(`1`)}, []string{"control characters"}},
		{"raw of a negative version", waybill.RawEvent{Name: "raw", Version: -2, Payload: json.RawMessage(`1`)}, []string{"fire raw: version -2"}},
		{"raw without a payload", waybill.RawEvent{Name: "raw"}, []string{"fire raw: the payload is not JSON"}},
		{"raw that is no JSON", waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`{"a":}`)}, []string{"fire raw: the payload is not JSON"}},
		{"raw with more after it", waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`{} {}`)}, []string{"not JSON"}},
		{"raw that is not UTF-8", waybill.RawEvent{Name: "raw", Payload: json.RawMessage("\"\xff\"")}, []string{"fire raw: the payload is not UTF-8"}},
		{"a header with a NUL", waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`1`), Headers: map[string]string{"trace": "\x00"}}, []string{`header "trace"`}},
		{"a header name that is not UTF-8", waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`1`), Headers: map[string]string{"\xff": ""}}, []string{`header "\xff"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := reg.Plan(context.Background(), nil, c.fired)
			wantErrSays(t, err, c.says...)
			if diff := cmp.Diff(waybill.Plan{}, got); diff != "" {
				t.Errorf("a refused event has a plan:\n%s", diff)
			}
		})
	}
}

func TestFireKeepsTheEncodersError(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[unencodable](reg, "pipe.laid", waybill.EventOptions{})
	_, err := reg.Plan(context.Background(), nil, unencodable{})
	var unsupported *json.UnsupportedTypeError
	if !errors.As(err, &unsupported) {
		t.Errorf("error %v, want it to wrap what encoding/json said", err)
	}
}

// Headers that somebody wrote with SQL of their own are read as far as they go.
func TestDecodeHeaders(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]map[string]string{
		``:                                    nil,
		`null`:                                nil,
		`{}`:                                  nil,
		`["a"]`:                               nil,
		`{"a": "b"}`:                          {"a": "b"},
		`{"a": "b", "n": 7, "o": {"x": [1]}}`: {"a": "b", "n": "7", "o": `{"x": [1]}`},
	} {
		if diff := cmp.Diff(want, waybill.DecodeHeaders([]byte(stored))); diff != "" {
			t.Errorf("headers %s (-want +got):\n%s", stored, diff)
		}
	}
}
