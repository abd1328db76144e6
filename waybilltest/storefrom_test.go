package waybilltest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/waybilltest"
)

// A receiver that fires needs no variable for a store that is opened later.
func TestAReceiverHasTheStoreOfItsRun(t *testing.T) {
	t.Parallel()
	want := []orderShipped{{ID: 7}}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		reg := register(t, func(reg *waybill.Registry) {
			sqlite.OnTx(reg, "ship", func(ctx context.Context, tx *sql.Tx, order orderPlaced) error {
				if postgres.StoreFrom(ctx) != nil {
					t.Error("the run is of a store on PostgreSQL")
				}
				_, err := sqlite.StoreFrom(ctx).Fire(ctx, tx, orderShipped{ID: order.ID})
				return err
			}, waybill.Options{})
		})
		store := waybilltest.SQLite(t, reg)
		waybilltest.Fire(t, store, orderPlaced{ID: 7})
		// What wraps a store, as the commands do, is the store all the same.
		came(t, waybilltest.Drain(t, struct{ *sqlite.Store }{store}), 0, waybilltest.Drained{Runs: 1, Succeeded: 1})
		if diff := cmp.Diff(want, waybilltest.Fired[orderShipped](t, store)); diff != "" {
			t.Errorf("fired (-want +got):\n%s", diff)
		}
		if sqlite.StoreFrom(t.Context()) != nil || waybill.StoreFrom(t.Context()) != nil {
			t.Error("there is a store outside a run")
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		reg := register(t, func(reg *waybill.Registry) {
			postgres.OnTx(reg, "ship", func(ctx context.Context, tx pgx.Tx, order orderPlaced) error {
				_, err := postgres.StoreFrom(ctx).Fire(ctx, tx, orderShipped{ID: order.ID})
				return err
			}, waybill.Options{})
		})
		store, pool := onPostgres(t, reg)
		waybilltest.Fire(t, store, orderPlaced{ID: 7})
		came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{Runs: 1, Succeeded: 1})
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		if diff := cmp.Diff(want, waybilltest.FiredTx[orderShipped](t, store, tx)); diff != "" {
			t.Errorf("fired (-want +got):\n%s", diff)
		}
	})
}
