package waybill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-go/waybill"
)

// Trap 8: a lease that is over before its run starts.
func TestReceiverIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	runTx := func(context.Context, any, *waybill.Delivery) error { return nil }
	for _, c := range []struct {
		name   string
		change func(*waybill.Receiver)
		says   []string // nil: nothing is wrong
	}{
		{"as it is", func(*waybill.Receiver) {}, nil},
		{"any event", func(r *waybill.Receiver) { r.Event = waybill.AnyEvent }, nil},
		{"transactional", func(r *waybill.Receiver) { r.Run, r.RunTx, r.TxKind = nil, runTx, "pgx.Tx" }, nil},
		{"no key", func(r *waybill.Receiver) { r.Key = "" }, []string{"receiver key is empty"}},
		{"over-long key", func(r *waybill.Receiver) { r.Key = strings.Repeat("k", 256) }, []string{"receiver key has 256 bytes"}},
		{"key with a newline", func(r *waybill.Receiver) { r.Key = "a\nb" }, []string{"receiver key", "control characters"}},
		{"key with DEL", func(r *waybill.Receiver) { r.Key = "a\x7fb" }, []string{"control characters"}},
		{"key not UTF-8", func(r *waybill.Receiver) { r.Key = "a\xff" }, []string{"not UTF-8"}},
		{"key with white space at its end", func(r *waybill.Receiver) { r.Key = "a " }, []string{"white space"}},
		{"no event", func(r *waybill.Receiver) { r.Event = "" }, []string{`receiver "mail"`, "event name is empty"}},
		{"no function", func(r *waybill.Receiver) { r.Run = nil }, []string{`receiver "mail"`, "exactly one of Run and RunTx"}},
		{"two functions", func(r *waybill.Receiver) { r.RunTx, r.TxKind = runTx, "pgx.Tx" }, []string{"exactly one of Run and RunTx"}},
		{"no kind of transaction", func(r *waybill.Receiver) { r.Run, r.RunTx = nil, runTx }, []string{"RunTx needs TxKind"}},
		{"upper-case lane", func(r *waybill.Receiver) { r.Lane = "Mail" }, []string{`lane "Mail"`}},
		{"lane with a space", func(r *waybill.Receiver) { r.Lane = "e mail" }, []string{`lane "e mail"`}},
		{"lane that ends in a dash", func(r *waybill.Receiver) { r.Lane = "mail-" }, []string{`lane "mail-"`}},
		{"lane with two dashes", func(r *waybill.Receiver) { r.Lane = "e--mail" }, []string{`lane "e--mail"`}},
		{"lane with a newline", func(r *waybill.Receiver) { r.Lane = "mail\n" }, []string{`lane "mail\n"`}},
		{"lane of several words", func(r *waybill.Receiver) { r.Lane = "e-mail_2" }, nil},
		{"site nowhere", func(r *waybill.Receiver) { r.Site = "moon" }, []string{`site "moon"`, `"task"`, `"relay"`}},
		{"site relay", func(r *waybill.Receiver) { r.Site = waybill.SiteRelay }, nil},
		{"negative lease", func(r *waybill.Receiver) { r.Lease = -time.Second }, []string{"lease -1s must be"}},
		{"lease of nothing on the database's clock", func(r *waybill.Receiver) { r.Lease = 999 * time.Nanosecond }, []string{"lease 999ns must be"}},
		{"negative timeout", func(r *waybill.Receiver) { r.Timeout = -time.Second }, []string{"timeout -1s is negative"}},
		{"timeout above the default lease", func(r *waybill.Receiver) { r.Timeout = waybill.DefaultLease + 1 }, []string{"longer than the lease 5m0s", "raise the lease or declare heartbeat"}},
		{"timeout above its lease", func(r *waybill.Receiver) { r.Lease, r.Timeout = time.Minute, 2*time.Minute }, []string{"timeout 2m0s is longer than the lease 1m0s"}},
		{"timeout of the lease", func(r *waybill.Receiver) { r.Lease, r.Timeout = time.Minute, time.Minute }, nil},
		{"heartbeat without a timeout", func(r *waybill.Receiver) { r.Heartbeat = true }, []string{"heartbeat needs a timeout"}},
		{"heartbeat up to a long timeout", func(r *waybill.Receiver) { r.Heartbeat, r.Timeout = true, 2*time.Hour }, nil},
		{"negative attempts", func(r *waybill.Receiver) { r.MaxAttempts = -1 }, []string{"max attempts -1"}},
		{"negative give-up-after", func(r *waybill.Receiver) { r.GiveUpAfter = -1 }, []string{"give-up-after"}},
		{"negative backoff base", func(r *waybill.Receiver) { r.Backoff.Base = -1 }, []string{"backoff base"}},
		{"negative backoff cap", func(r *waybill.Receiver) { r.Backoff.Cap = -1 }, []string{"backoff base"}},
		{"backoff cap below its base", func(r *waybill.Receiver) {
			r.Backoff = waybill.Backoff{Base: time.Minute, Cap: time.Second}
		}, []string{"cap 1s is below its base 1m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			receiver := waybill.Receiver{Key: "mail", Event: "order.placed", Run: ignoreAny}
			c.change(&receiver)
			reg := waybill.NewRegistry()
			reg.Add(receiver)
			wantErrSays(t, reg.Err(), c.says...)
			if _, ok := reg.Receiver(receiver.Key); ok != (len(c.says) == 0) {
				t.Errorf("the registry has the receiver: %t", ok)
			}
		})
	}
}

func TestReceiverDefaults(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: "plain", Event: "e", Run: ignoreAny})
	declared := waybill.Options{
		Lane: "mail", Site: waybill.SiteRelay, Lease: time.Minute, Timeout: time.Second, MaxAttempts: 1,
		Backoff: waybill.Backoff{Base: time.Second, Cap: time.Second}, GiveUpAfter: time.Hour,
	}
	reg.Add(waybill.Receiver{Key: "declared", Event: "e", Run: ignoreAny, Options: declared})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	plain, _ := reg.Receiver("plain")
	defaults := waybill.Options{
		Lane: "default", Site: waybill.SiteTask, Lease: 5 * time.Minute, MaxAttempts: 5,
		Backoff: waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour},
	}
	if diff := cmp.Diff(defaults, plain.Options); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	kept, _ := reg.Receiver("declared")
	if diff := cmp.Diff(declared, kept.Options); diff != "" {
		t.Errorf("what was declared changed (-want +got):\n%s", diff)
	}
}

func TestOnRegistersAPlainReceiverOfTheType(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	var got orderPlaced
	waybill.On(reg, "mail", func(_ context.Context, event orderPlaced) error { got = event; return nil }, waybill.Options{Lane: "mail"})
	receiver, ok := reg.Receiver("mail")
	if !ok || reg.Err() != nil {
		t.Fatalf("no receiver: %v", reg.Err())
	}
	if receiver.Event != "order.placed" || receiver.Lane != "mail" || receiver.Transactional() {
		t.Errorf("receiver %+v, want a plain one of order.placed in lane mail", receiver)
	}
	if err := receiver.Call(context.Background(), nil, deliveryOf(`{"id":7}`)); err != nil || got.ID != 7 {
		t.Errorf("called with %+v, returned %v", got, err)
	}
}

func TestOnTxRegistersATransactionalReceiverOfTheType(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	broken := errors.New("out of stock")
	waybill.OnTx(reg, "stock", "pgx.Tx", func(_ context.Context, tx any, event orderPlaced) error {
		if tx != "tx" || event.ID != 7 {
			t.Errorf("called with tx %v and %+v", tx, event)
		}
		return broken
	}, waybill.Options{})
	receiver, ok := reg.Receiver("stock")
	if !ok || !receiver.Transactional() || receiver.TxKind != "pgx.Tx" {
		t.Fatalf("receiver %+v, %v; want a transactional one of kind pgx.Tx", receiver, reg.Err())
	}
	if err := receiver.Call(context.Background(), "tx", deliveryOf(`{"id":7}`)); err != broken {
		t.Errorf("returned %v, want what the receiver returned", err)
	}
	err := receiver.Call(context.Background(), "tx", deliveryOf(`[]`))
	if !waybill.IsPermanent(err) {
		t.Errorf("returned %v for a payload that does not decode, want a permanent error", err)
	}
}

func deliveryOf(payload string) *waybill.Delivery {
	return &waybill.Delivery{ID: 42, Event: &waybill.Event{Name: "order.placed", Payload: []byte(payload)}, Attempt: 1, MaxAttempts: 5}
}

func TestReceiverAccepts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		declared, fired string
		want            bool
	}{
		{"order.placed", "order.placed", true},
		{"order.placed", "order.place", false},
		{"order.placed", "*", false},
		{"*", "order.placed", true},
		{"*", "*", true},
	} {
		receiver := waybill.Receiver{Event: c.declared}
		if got := receiver.Accepts(c.fired); got != c.want {
			t.Errorf("a receiver of %q accepts %q: %t, want %t", c.declared, c.fired, got, c.want)
		}
	}
}

// A payload that does not decode today will not decode at the next attempt.
func TestDecodeErrorIsPermanent(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{"id":"seven"}`, `[]`, `{`, ``} {
		_, err := waybill.Decode[orderPlaced](waybill.NewRegistry(), deliveryOf(payload))
		if !waybill.IsPermanent(err) {
			t.Errorf("payload %q: error %v, want a permanent one", payload, err)
		}
		wantErrSays(t, err, "decode payload of order.placed as waybill_test.orderPlaced")
	}
	var typed *json.UnmarshalTypeError
	if _, err := waybill.Decode[orderPlaced](waybill.NewRegistry(), deliveryOf(`[]`)); !errors.As(err, &typed) {
		t.Errorf("error %v, want it to wrap what encoding/json said", err)
	}
}

func TestCallCarriesTheDelivery(t *testing.T) {
	t.Parallel()
	d := deliveryOf(`{}`)
	receiver := waybill.Receiver{Run: func(ctx context.Context, passed *waybill.Delivery) error {
		if waybill.DeliveryFrom(ctx) != d || passed != d {
			t.Error("the receiver was not given the delivery")
		}
		return nil
	}}
	if err := receiver.Call(context.Background(), nil, d); err != nil {
		t.Error(err)
	}
	if got := waybill.DeliveryFrom(context.Background()); got != nil {
		t.Errorf("outside a receiver there is the delivery %+v", got)
	}
}

// panicky is an error that can be built but not read, as a nil pointer of an error
// type that was returned by mistake.
type panicky struct{ text string }

func (e *panicky) Error() string { return e.text }

// zero is an index that the compiler cannot know.
func zero() int { return len(waybill.NewRegistry().Receivers()) }

func TestCallReturnsAPanicWithItsStack(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for _, c := range []struct {
		name string
		run  func() error
		says []string
		is   error
	}{
		{"of text", func() error { panic("kaboom") }, []string{"panic: kaboom", "receiver_test.go"}, nil},
		{"of an error", func() error { panic(cause) }, []string{"panic: the cause", "receiver_test.go"}, cause},
		{"of nil", func() error { panic(nil) }, []string{"panic: "}, nil},
		{"of the runtime", func() error { return fmt.Errorf("%d", []int{}[zero()]) }, []string{"index out of range"}, nil},
		{"of the returned error", func() error { var e *panicky; return e }, []string{"panic: ", "nil pointer", "(*panicky).Error"}, nil},
	} {
		for _, shape := range []string{"plain", "transactional"} {
			t.Run(c.name+", "+shape, func(t *testing.T) {
				receiver := waybill.Receiver{Run: func(context.Context, *waybill.Delivery) error { return c.run() }}
				if shape == "transactional" {
					receiver = waybill.Receiver{RunTx: func(context.Context, any, *waybill.Delivery) error { return c.run() }}
				}
				err := receiver.Call(context.Background(), nil, deliveryOf(`{}`))
				var panicked *waybill.PanicError
				if !errors.As(err, &panicked) {
					t.Fatalf("returned %v, want a PanicError", err)
				}
				wantErrSays(t, err, c.says...)
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("error %v does not wrap %v", err, c.is)
				}
			})
		}
	}
}

func TestPanicIsAnOrdinaryError(t *testing.T) {
	t.Parallel()
	receiver := waybill.Receiver{Run: func(context.Context, *waybill.Delivery) error { panic("x") }}
	err := receiver.Call(context.Background(), nil, deliveryOf(`{}`))
	got := waybill.Judge(&receiver, deliveryOf(`{}`), err, time.Time{}, 0)
	want := waybill.Outcome{Status: waybill.Failed, Attempted: true}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(waybill.Outcome{}, "Error")); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}
