// Package sqlmodule_test fires events in the transactions of the libraries that
// applications reach PostgreSQL by, beside a row of the application's own. It is a
// module of its own, so that nobody who uses Waybill has those among its dependencies:
//
//	eval "$(make -s services)"; cd internal/sqlmodule && go test ./...
package sqlmodule_test

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

//go:embed schema.sql
var schema string

// orderPlaced is fired for each order that is placed.
type orderPlaced struct {
	ID int64 `json:"id"`
}

// outbox is a shop's database: its orders, and what is owed for them.
type outbox struct {
	*postgres.Store
	db *sql.DB
}

// newOutbox makes a database of the test's own and opens it by open.
func newOutbox(t *testing.T, open func(url string) (*sql.DB, error)) *outbox {
	t.Helper()
	db, err := open(services.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	migrator, err := postgres.NewMigratorDB(db, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return nil }, waybill.Options{})
	waybill.On(reg, "stock", func(context.Context, orderPlaced) error { return nil }, waybill.Options{})
	store, err := postgres.OpenDB(t.Context(), db, reg)
	if err != nil {
		t.Fatal(err)
	}
	return &outbox{store, db}
}

var errRefused = errors.New("the card was refused")

// places has orders placed in transactions of the library: the order and what is owed
// for it are there together, or neither is.
func (o *outbox) places(t *testing.T, place func(ctx context.Context, id int64, then error) error) {
	t.Helper()
	if err := place(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := place(t.Context(), 2, errRefused); !errors.Is(err, errRefused) {
		t.Fatalf("the transaction was rolled back with %v", err)
	}
	for id, want := range map[int64]int{1: 1, 2: 0} {
		var orders, deliveries int
		err := o.db.QueryRowContext(t.Context(), `
SELECT (SELECT count(*) FROM shop_order WHERE id = $1),
       (SELECT count(*) FROM waybill.delivery AS d JOIN waybill.event AS e ON e.id = d.event_id
         WHERE (e.payload ->> 'id')::bigint = $1)`, id).Scan(&orders, &deliveries)
		if err != nil {
			t.Fatal(err)
		}
		if orders != want || deliveries != 2*want {
			t.Errorf("order %d: %d rows and %d deliveries, want %d and %d", id, orders, deliveries, want, 2*want)
		}
	}
}
