// Package sqlitetest gives a test a SQLite store of its own, and works on its
// rows behind the back of what is tested.
package sqlitetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// Open opens a store in memory, which has its schema, until the test ends.
func Open(t testing.TB, registry *waybill.Registry) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Memory, registry)
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

// Fire fires n events in one transaction, each as event makes it from its number.
func Fire(t testing.TB, store *sqlite.Store, n int, event func(i int) waybill.RawEvent) {
	t.Helper()
	events := make([]any, n)
	for i := range events {
		events[i] = event(i)
	}
	inTx(t, store, func(tx *sql.Tx) error {
		_, err := store.FireAll(context.Background(), tx, events)
		return err
	})
}

// Exec runs a statement, formatted with the arguments, in a transaction of its own.
func Exec(t testing.TB, store *sqlite.Store, format string, args ...any) {
	t.Helper()
	inTx(t, store, func(tx *sql.Tx) error {
		_, err := tx.Exec(fmt.Sprintf(format, args...))
		return err
	})
}

// Number returns what a query of one number yields.
func Number(t testing.TB, store *sqlite.Store, query string) (n int) {
	t.Helper()
	inTx(t, store, func(tx *sql.Tx) error { return tx.QueryRow(query).Scan(&n) })
	return n
}

// inTx works without the test's context: a test may look at its rows when that
// has ended.
func inTx(t testing.TB, store *sqlite.Store, work func(tx *sql.Tx) error) {
	t.Helper()
	if err := store.InTx(context.Background(), work); err != nil {
		t.Fatal(err)
	}
}
