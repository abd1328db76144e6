package waybill_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// dueAt declares one scheduled receiver of orderPlaced, with targets or without.
func dueAt(t *testing.T, due *waybill.DueTime, targets *waybill.Targets) *waybill.Registry {
	t.Helper()
	reg := orders(t)
	waybill.On(reg, "remind", ignore, waybill.Options{Due: due, Targets: targets})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

// always returns one time whatever the event.
func always(at time.Time) *waybill.DueTime {
	return waybill.DueOf(func(context.Context, orderPlaced) (time.Time, error) { return at, nil })
}

func toAll(targets ...string) *waybill.Targets {
	return waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return targets, nil })
}

// Past times and future ones are planned alike: it is the database that knows the time.
func TestDueTimeIsPlanned(t *testing.T) {
	t.Parallel()
	for _, c := range moments {
		t.Run(c.name, func(t *testing.T) {
			reg := dueAt(t, always(c.at), nil)
			if c.refused {
				wantRefused(t.Context(), t, reg, orderPlaced{}, `fire order.placed: due time of receiver "remind": `+c.at.String(), "is not between the years 1 and 9999")
				return
			}
			got := plan(t, reg, orderPlaced{}).Deliveries
			if len(got) != 1 || got[0].Receiver != "remind" {
				t.Fatalf("deliveries %+v, want one of receiver remind", got)
			}
			wantMoment(t, c.want, got[0].DueAt)
		})
	}
}

func TestDueTimeIsOfItsReceiverAlone(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	reg := orders(t, "before")
	waybill.On(reg, "remind", ignore, waybill.Options{Due: always(at)})
	waybill.OnAny(reg, "after", ignoreAny, waybill.Options{})
	want := []waybill.PlannedDelivery{
		{Receiver: "before", MaxAttempts: waybill.DefaultMaxAttempts},
		{Receiver: "remind", MaxAttempts: waybill.DefaultMaxAttempts, DueAt: at},
		{Receiver: "after", MaxAttempts: waybill.DefaultMaxAttempts},
	}
	if diff := cmp.Diff(want, plan(t, reg, orderPlaced{}).Deliveries); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

func TestDueTimeIsOfEveryTarget(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	calls := 0
	due := waybill.DueOf(func(context.Context, orderPlaced) (time.Time, error) { calls++; return at, nil })
	want := []waybill.PlannedDelivery{
		{Receiver: "remind", Target: "a", MaxAttempts: waybill.DefaultMaxAttempts, DueAt: at},
		{Receiver: "remind", Target: "b", MaxAttempts: waybill.DefaultMaxAttempts, DueAt: at},
	}
	if diff := cmp.Diff(want, plan(t, dueAt(t, due, toAll("a", "b", "a")), orderPlaced{}).Deliveries); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	if calls != 1 {
		t.Errorf("the due time was asked for %d times, want once", calls)
	}
	if got := plan(t, dueAt(t, due, toAll()), orderPlaced{}).Deliveries; len(got) != 0 || calls != 1 {
		t.Errorf("without a target there are deliveries %+v, and the due time was asked for %d times", got, calls-1)
	}
}

// A change whose consequences cannot be worked out must not commit.
func TestPlanFailsWithTheErrorOfTheDueTime(t *testing.T) {
	t.Parallel()
	broken := errors.New("no calendar")
	reg := dueAt(t, waybill.DueOf(func(context.Context, orderPlaced) (time.Time, error) { return time.Now(), broken }), nil)
	if _, err := reg.Plan(t.Context(), nil, orderPlaced{}); !errors.Is(err, broken) {
		t.Errorf("error %v, want it to wrap %v", err, broken)
	}
	wantRefused(t.Context(), t, reg, orderPlaced{}, `fire order.placed: due time of receiver "remind": no calendar`)
}

// execer and its kin stand for what a store asks of a transaction.
type execer interface{ Exec() string }

type sqlTx struct{ open string }

func (t *sqlTx) Exec() string { return t.open }

type otherTx struct{}

// asking declares a receiver whose targets and due time both read in a Tx, and tells what
// they were given.
func asking[Tx any](t *testing.T) (reg *waybill.Registry, given func() []any) {
	t.Helper()
	var seen []any
	reg = dueAt(t,
		waybill.DueOfTx(func(_ context.Context, tx Tx, _ orderPlaced) (time.Time, error) {
			seen = append(seen, tx)
			return time.Time{}, nil
		}),
		waybill.TargetsOfTx(func(_ context.Context, tx Tx, _ orderPlaced) ([]string, error) {
			seen = append(seen, tx)
			return []string{"a"}, nil
		}))
	return reg, func() []any { return seen }
}

func TestTargetsAndDueTimesReadInTheTransaction(t *testing.T) {
	t.Parallel()
	tx := &sqlTx{open: "yes"}
	concrete, givenConcrete := asking[*sqlTx](t)
	port, givenPort := asking[execer](t)
	anything, givenAny := asking[any](t)
	for _, c := range []struct {
		name  string
		reg   *waybill.Registry
		given func() []any
		tx    any
		want  any
		says  []string // nil: both functions are given want
	}{
		{"a concrete type", concrete, givenConcrete, tx, tx, nil},
		{"an interface that it has", port, givenPort, tx, tx, nil},
		{"any", anything, givenAny, tx, tx, nil},
		{"any, of another type", anything, givenAny, otherTx{}, otherTx{}, nil},
		{"any, of nothing", anything, givenAny, nil, nil, nil},
		{"another type", concrete, givenConcrete, otherTx{}, nil, []string{"want to read in a *waybill_test.sqlTx, and the event is fired in a waybill_test.otherTx"}},
		{"its value", concrete, givenConcrete, *tx, nil, []string{"*waybill_test.sqlTx", "fired in a waybill_test.sqlTx"}},
		{"nothing", concrete, givenConcrete, nil, nil, []string{"want to read in a *waybill_test.sqlTx, and the event is fired in a <nil>"}},
		{"an interface that it has not", port, givenPort, otherTx{}, nil, []string{"want to read in a waybill_test.execer, and the event is fired in a waybill_test.otherTx"}},
		{"an interface, of nothing", port, givenPort, nil, nil, []string{"waybill_test.execer", "fired in a <nil>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.given())
			got, err := c.reg.Plan(t.Context(), c.tx, orderPlaced{})
			given := c.given()[before:]
			wantErrSays(t, err, c.says...)
			if c.says != nil {
				wantErrSays(t, err, `fire order.placed: targets of receiver "remind": `)
				if len(given) != 0 || len(got.Deliveries) != 0 || got.Event.Name != "" {
					t.Errorf("functions were called with %v, and the plan is %+v", given, got)
				}
				return
			}
			if len(given) != 2 || given[0] != c.want || given[1] != c.want {
				t.Errorf("the functions were given %v, want %v for both", given, c.want)
			}
		})
	}
	alone := dueAt(t, waybill.DueOfTx(func(context.Context, *sqlTx, orderPlaced) (time.Time, error) { return time.Time{}, nil }), nil)
	wantRefused(t.Context(), t, alone, orderPlaced{}, `due time of receiver "remind": want to read in a *waybill_test.sqlTx`, "<nil>")
}

func TestTargetsAndDueTimesOfAnEnvelope(t *testing.T) {
	t.Parallel()
	want := orderPlaced{ID: 7, Notes: "n"}
	raw := waybill.RawEvent{Name: "order.placed", Payload: json.RawMessage(`{"id":7,"notes":"n"}`)}
	seen := 0
	see := func(event orderPlaced) {
		seen++
		if diff := cmp.Diff(want, event); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	reg := dueAt(t,
		waybill.DueOf(func(_ context.Context, event orderPlaced) (time.Time, error) { see(event); return time.Time{}, nil }),
		waybill.TargetsOf(func(_ context.Context, event orderPlaced) ([]string, error) { see(event); return []string{"a"}, nil }))
	for i, event := range []any{want, &want, raw, &raw} {
		plan(t, reg, waybill.Envelope{Event: event})
		plan(t, reg, &waybill.Envelope{Event: event})
		if seen != 4*(i+1) {
			t.Errorf("after a %T the functions were called %d times, want %d", event, seen, 4*(i+1))
		}
	}
}

// A scheduled receiver of every event sees each in its recorded form, as targets do.
func TestDueTimeOfAnyEvent(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	reg := orders(t)
	var seen []waybill.RawEvent
	waybill.OnAny(reg, "digest", ignoreAny, waybill.Options{
		Due: waybill.DueOf(func(_ context.Context, event waybill.RawEvent) (time.Time, error) {
			seen = append(seen, event)
			return at, nil
		}),
	})
	other := waybill.RawEvent{Name: "raw", Version: 3, Payload: json.RawMessage(`1`)}
	for _, fired := range []any{orderPlaced{ID: 7}, other, waybill.Envelope{Event: &other}} {
		if got := plan(t, reg, fired).Deliveries; len(got) != 1 || !got[0].DueAt.Equal(at) {
			t.Errorf("deliveries %+v, want one that is due at %s", got, at)
		}
	}
	if diff := cmp.Diff([]waybill.RawEvent{rawOrder(nil), other, other}, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestRegistryRefusesADueTimeOfAnotherType(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	waybill.On(reg, "remind", ignore, waybill.Options{
		Due: waybill.DueOf(func(context.Context, orderShipped) (time.Time, error) { return time.Time{}, nil }),
	})
	wantErrSays(t, reg.Err(), `receiver "remind": its due time takes a waybill_test.orderShipped, the receiver a waybill_test.orderPlaced`)
	if _, ok := reg.Receiver("remind"); ok {
		t.Error("it was registered all the same")
	}
}
