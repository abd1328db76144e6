package waybilltest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/waybilltest"
)

// An application, in small: a change that fires, and a receiver that sends mail.

type mailer struct{ sent []string }

func (m *mailer) send(_ context.Context, order orderPlaced) error {
	m.sent = append(m.sent, order.Email)
	return nil
}

func receivers(m *mailer) *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", m.send, waybill.Options{Lane: "mail"})
	return reg
}

// Its test, as its team would write it: with no server...
func TestReceiptGoesOut(t *testing.T) {
	mail := &mailer{}
	store := waybilltest.SQLite(t, receivers(mail))
	waybilltest.Fire(t, store, orderPlaced{ID: 42, Email: "ada@example.com"})
	if waybilltest.Drain(t, store); len(mail.sent) != 1 || mail.sent[0] != "ada@example.com" {
		t.Errorf("receipts went to %v", mail.sent)
	}
}

// ... and on the PostgreSQL of its other tests, where each is rolled back.
func TestReceiptGoesOutOnPostgres(t *testing.T) {
	mail := &mailer{}
	store, tx := begun(t, receivers(mail))
	if _, err := store.Fire(t.Context(), tx, orderPlaced{ID: 42, Email: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	if waybilltest.DrainTx(t, store, tx); len(mail.sent) != 1 || mail.sent[0] != "ada@example.com" {
		t.Errorf("receipts went to %v", mail.sent)
	}
}

// begun is what such a team has already: a database, and a transaction for each test.
func begun(t *testing.T, reg *waybill.Registry) (*postgres.Store, pgx.Tx) {
	t.Helper()
	store, pool := onPostgres(t, reg)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return store, tx
}
