package sqlite_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// A step that is not undone with the caller's transaction would be there for good.
func TestAStoreEndsWithItsTransaction(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	err := store.InTx(t.Context(), func(tx *sql.Tx) error {
		_, err := store.Fire(t.Context(), tx, waybill.RawEvent{Name: "fired", Payload: []byte("{}")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db := openRaw(t, path)
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE stock (n INTEGER UNIQUE); INSERT INTO stock VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	bound, err := store.Within(tx)
	if err != nil {
		t.Fatal(err)
	}
	err = bound.InTx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT OR ROLLBACK INTO stock VALUES (1)`)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("the step that ended the transaction: %v", err)
	}
	rows, err := bound.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: waybill.Keys(store.Registry().Receivers()), Limit: 1, Lease: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "is over") {
		t.Errorf("a step after it claimed %d rows, %v", len(rows), err)
	}
	if got := text(t, db, `SELECT status FROM delivery`); got != "pending" {
		t.Errorf("the row is %s, want it as it was before the transaction", got)
	}
}
