package waybilltest

import (
	"testing"

	"github.com/waybill-go/waybill"
)

// page is how many events are read at once.
const page = 1000

// Fired returns the events of type T that were fired and committed, in the order of
// their ids, decoded as a receiver has them. Suppressed ones are among them.
func Fired[T any](t testing.TB, store Store) []T {
	t.Helper()
	reg := store.Registry()
	name, ok := waybill.NameOf[T](reg)
	if !ok {
		var event T
		t.Fatalf("fired: %T is not a declared event of the store's registry", event)
	}
	var fired []T
	for after := int64(0); ; {
		events, err := store.Events(t.Context(), waybill.EventsRequest{Name: name, After: after, Limit: page})
		if err != nil {
			t.Fatalf("fired: %v", err)
		}
		for _, recorded := range events {
			event, err := waybill.Decode[T](reg, &waybill.Delivery{Event: recorded})
			if err != nil {
				t.Fatalf("fired: event %d: %v", recorded.ID, err)
			}
			fired, after = append(fired, event), recorded.ID
		}
		if len(events) < page {
			return fired
		}
	}
}

// FiredTx is Fired inside a transaction of the test's own: of what was fired there
// too, and not committed.
func FiredTx[T any, S Store](t testing.TB, store Binder[S], tx any) []T {
	t.Helper()
	return Fired[T](t, within(t, store, tx))
}
