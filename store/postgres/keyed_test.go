package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// On a connection without a transaction each statement is committed by itself: what is
// taken back beside a duplicate would have been there for all to see.
func TestSeveralKeyedEventsWantATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	keyed := func(keys ...string) (events []any) {
		for _, key := range keys {
			events = append(events, waybill.Envelope{Event: orderPlaced{}, DedupeKey: key})
		}
		return events
	}
	for name, db := range map[string]postgres.DB{"a pool": pool, "a connection of a pool": conn, "a connection": conn.Conn()} {
		if _, err := store.FireAll(t.Context(), db, keyed("a", "b")); err == nil || !strings.Contains(err.Error(), "need a transaction") {
			t.Errorf("fired in %s: %v", name, err)
		}
	}
	if _, err := store.FireAll(t.Context(), conn.Conn(), keyed("alone")); err != nil {
		t.Errorf("one event: %v", err)
	}
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for i, db := range []postgres.DB{conn, conn.Conn(), tx} { // all of them are in the transaction
		key := string(rune('c' + i))
		if _, err := store.FireAll(t.Context(), db, keyed(key, key+key)); err != nil {
			t.Error(err)
		}
	}
}
