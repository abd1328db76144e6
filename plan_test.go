package waybill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
)

// placedIn is an event for each goroutine that declares one.
type placedIn[Place any] struct{ ID int }

type north struct{}

type south struct{}

// receivers is how many declareIn declares.
const receivers = 30

func declareIn[Place any](reg *waybill.Registry, name string) {
	waybill.Declare[placedIn[Place]](reg, name, waybill.EventOptions{Version: 2, Upgrade: unchanged})
	for i := range receivers {
		waybill.On(reg, fmt.Sprintf("%s.%d", name, i), func(context.Context, placedIn[Place]) error { return nil }, waybill.Options{})
	}
}

// Each event is owed to the receivers of one moment, and targets may ask the registry that
// plans them.
func TestPlanWhileDeclarationsGoOn(t *testing.T) {
	t.Parallel()
	reg := upgraded(t, unchanged)
	waybill.On(reg, "fan", ignore, waybill.Options{
		Targets: waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return reg.Lanes(), reg.Err() }),
	})
	waybill.OnAny(reg, "audit", ignoreAny, waybill.Options{})
	old := waybill.RawEvent{Name: "order.placed", Version: 1, Payload: json.RawMessage(`{}`)}
	var all sync.WaitGroup
	all.Go(func() { declareIn[north](reg, "north") })
	all.Go(func() { declareIn[south](reg, "south") })
	for range 2 {
		all.Go(func() {
			before := 0
			for range 50 {
				if got := len(plan(t, reg, waybill.RawEvent{Name: "north", Payload: json.RawMessage(`1`)}).Deliveries); got < before {
					t.Errorf("owed to %d receivers after %d", got, before)
				} else {
					before = got
				}
				for _, fired := range []any{orderPlaced{}, waybill.Envelope{Event: old, DedupeKey: "a"}} {
					if got := plan(t, reg, fired).Deliveries; len(got) != 3 {
						t.Errorf("owed %+v, want one each to mail, fan and audit", got)
					}
				}
			}
		})
	}
	all.Wait()
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	for _, fired := range []any{placedIn[north]{}, placedIn[south]{}} {
		if got := plan(t, reg, fired); len(got.Deliveries) != receivers+1 || got.Event.Version != 2 {
			t.Errorf("%T of version %d is owed to %d receivers, want version 2 and %d of them", fired, got.Event.Version, len(got.Deliveries), receivers+1)
		}
	}
}

// A plan may read some of the old declarations and some of the new, and never a part of one.
func TestPlanWhileDeclarationsAreReplaced(t *testing.T) {
	t.Parallel()
	old, next := upgraded(t, unchanged), upgraded(t, unchanged)
	for _, reg := range []*waybill.Registry{old, next} {
		waybill.On(reg, "fan", ignore, waybill.Options{Targets: toAll("a", "b")})
	}
	reg := old.Clone()
	v1 := waybill.RawEvent{Name: "order.placed", Version: 1, Payload: json.RawMessage(`{}`)}
	var all sync.WaitGroup
	for _, with := range []*waybill.Registry{old, next} {
		all.Go(func() {
			for range 300 {
				if err := reg.Replace(with); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 300 {
				for _, fired := range []any{orderPlaced{}, v1} {
					if got, err := reg.Plan(t.Context(), nil, fired); err != nil || len(got.Deliveries) != 3 {
						t.Errorf("owed %+v, %v; want one to mail and two to fan", got.Deliveries, err)
					}
				}
			}
		})
	}
	all.Wait()
}

// The encoder does not look into what a MarshalJSON returned, and PostgreSQL would refuse it
// only once the caller's transaction is under way.
func TestFireRefusesAPayloadThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[carton](reg, "carton.sent", waybill.EventOptions{})
	for _, fired := range []any{carton{Raw: json.RawMessage("\"\xff\"")}, waybill.Envelope{Event: &carton{Raw: json.RawMessage("{\"a\":\"\xc3(\"}")}}} {
		wantRefused(t.Context(), t, reg, fired, "fire carton.sent: the payload of waybill_test.carton is not UTF-8")
	}
	got := plan(t, reg, carton{Label: "\xff", Raw: json.RawMessage(`"ü"`)}).Event.Payload // the encoder mends text of its own
	if want := `{"Label":"\ufffd","Raw":"ü"}`; string(got) != want {
		t.Errorf("payload %s, want %s", got, want)
	}
}
