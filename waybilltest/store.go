package waybilltest

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// Store is what the kit works on: a store of package postgres or sqlite.
type Store interface {
	waybill.Store
	waybill.EventReader
	waybill.Hastener
}

// Binder is a Store that can be bound to a transaction of the test's own.
type Binder[S Store] interface {
	Within(tx any) (S, error)
}

// Clock is a Store whose clock can be moved. Both stores can.
type Clock interface {
	ClockOffset() time.Duration
	SetClockOffset(offset time.Duration)
}

// SQLite returns a store in memory that is the test's own and ends with it.
func SQLite(t testing.TB, reg *waybill.Registry) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Memory, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Advance moves the store's clock on: to when something is due, past a backoff, a
// deferral's pause or a lease. It moves the clock of this Store, and of what Within
// made of it, and nobody else's.
func Advance(t testing.TB, store Clock, d time.Duration) {
	t.Helper()
	if d < 0 {
		t.Fatalf("advance by %s: the clock goes forward", d)
	}
	store.SetClockOffset(store.ClockOffset() + d)
}

// within binds a store to a transaction.
func within[S Store](t testing.TB, store Binder[S], tx any) S {
	t.Helper()
	bound, err := store.Within(tx)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}
