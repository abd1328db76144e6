package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

type parcel struct {
	N int `json:"n"`
}

// A receiver that is registered with OnTx is given the store's transaction, and
// what it wrote there is there once its acknowledgement is.
func TestOnTx(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	reg := waybill.NewRegistry()
	waybill.Declare[parcel](reg, "parcel", waybill.EventOptions{})
	sqlite.OnTx(reg, "shelf", func(ctx context.Context, tx *sql.Tx, p parcel) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO shelf VALUES (?)`, p.N)
		return err
	}, waybill.Options{})
	store := newStore(t, filepath.Join(t.TempDir(), "waybill.db"), reg)
	if _, err := store.Migrator().Up(ctx); err != nil {
		t.Fatal(err)
	}
	if err := store.InTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE shelf (n INTEGER)`); err != nil {
			return err
		}
		_, err := store.Fire(ctx, tx, parcel{N: 7})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	receiver, d, ack := takeOne(t, store, "shelf")
	if receiver.TxKind != store.TxKind() {
		t.Errorf("the receiver wants %s, the store gives %s", receiver.TxKind, store.TxKind())
	}
	landed, err := store.RunTx(ctx, ack, func(ctx context.Context, tx any) error { return receiver.Call(ctx, tx, d) })
	if err != nil || !landed {
		t.Fatalf("landed %v, error %v", landed, err)
	}
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT n FROM shelf`).Scan(&n); err != nil || n != 7 {
			t.Errorf("the shelf has %d, error %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Call(ctx, "no transaction", d); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("got %v, want an error that names what was given", err)
	}
}

// A run that returned nil is recorded also when its context ended meanwhile: the
// work is done, and the claim was not lost.
func TestRunTxOutlivesItsContext(t *testing.T) {
	t.Parallel()
	store, _ := newFile(t)
	if err := fireRaw(t.Context(), store, 1); err != nil {
		t.Fatal(err)
	}
	_, _, ack := takeOne(t, store, "plain")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	landed, err := store.RunTx(ctx, ack, func(context.Context, any) error {
		cancel()
		return nil
	})
	if err != nil || !landed {
		t.Fatalf("landed %v, error %v", landed, err)
	}
	landed, err = store.RunTx(ctx, ack, func(context.Context, any) error {
		t.Error("it ran although its context had ended before")
		return nil
	})
	if err == nil || landed {
		t.Errorf("landed %v, error %v, want the end of the context", landed, err)
	}
}

// takeOne claims and takes the one due row of a receiver.
func takeOne(t *testing.T, store *sqlite.Store, key string) (*waybill.Receiver, *waybill.Delivery, waybill.Ack) {
	t.Helper()
	rows, err := store.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: []string{key}, Limit: 1, Lease: time.Minute})
	if err != nil || len(rows) != 1 {
		t.Fatalf("claimed %d rows, error %v", len(rows), err)
	}
	taken, err := store.Take(t.Context(), waybill.TakeRequest{By: "worker", Messages: []waybill.Message{rows[0].Message}, Leases: store.Registry().Leases()})
	if err != nil || len(taken) != 1 {
		t.Fatalf("took %d rows, error %v", len(taken), err)
	}
	receiver, ok := store.Registry().Receiver(key)
	if !ok {
		t.Fatalf("no receiver %q", key)
	}
	return receiver, taken[0], waybill.Ack{
		Message: waybill.Message{DeliveryID: taken[0].ID, Claim: taken[0].Claim},
		Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
	}
}
