package sqlite_test

import (
	"testing"

	"github.com/waybill-go/waybill"
)

// An application may fire in a transaction of its own, on a connection of its
// own.
// Trap 49: an event that is written beside the transaction it belongs to.
func TestFireInForeignTransaction(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	db := openRaw(t, path)
	event := waybill.RawEvent{Name: "fired", Payload: []byte(` {"n": 1} `)}
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := store.Fire(t.Context(), tx, event); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := text(t, db, `SELECT group_concat(payload) || (SELECT count(*) FROM delivery) FROM event`); got != ` {"n": 1} 1` {
		t.Errorf("payloads and rows: got %q", got)
	}
	// Without a transaction a crash could leave the event and not its deliveries.
	if _, err := store.Fire(t.Context(), db, event); err == nil {
		t.Error("fired on a pool")
	}
}
