package sqlite_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// A receiver that goes on after its transaction was rolled back has written nothing, and
// an outcome that is recorded all the same would say that it had.
func TestRunTxRecordsNothingWithoutItsTransaction(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"rolled back by SQLite": `INSERT OR ROLLBACK INTO stock VALUES (1)`,
		"ended by hand":         `ROLLBACK`,
		"committed by hand":     `COMMIT`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, path := newFile(t)
			if err := fireRaw(t.Context(), store, 1); err != nil {
				t.Fatal(err)
			}
			db := openRaw(t, path)
			if _, err := db.ExecContext(t.Context(), `CREATE TABLE stock (n INTEGER UNIQUE); INSERT INTO stock VALUES (1)`); err != nil {
				t.Fatal(err)
			}
			messages, err := claimPlain(t.Context(), store, 1)
			if err != nil {
				t.Fatal(err)
			}
			taken, err := waybill.Take(t.Context(), store, "worker", messages)
			if err != nil {
				t.Fatal(err)
			}
			d := taken[0].Delivery
			ack := waybill.Ack{
				Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim},
				Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
			}
			landed, err := store.RunTx(t.Context(), ack, func(ctx context.Context, tx any) error {
				_, _ = tx.(*sql.Tx).ExecContext(ctx, statement)
				return nil
			})
			if landed || err == nil || !strings.Contains(err.Error(), "is over before its end") {
				t.Errorf("landed %v, %v, want to be told that the transaction is over", landed, err)
			}
			if got := text(t, db, `SELECT status FROM delivery`); got != "claimed" {
				t.Errorf("the row is %s, want it claimed still", got)
			}
			if err := fireRaw(t.Context(), store, 1); err != nil {
				t.Errorf("the next transaction: %v", err)
			}
		})
	}
}
