package waybilltest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/waybilltest"
)

// onPostgres returns a store on a migrated database of the test's own.
func onPostgres(t *testing.T, reg *waybill.Registry) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), services.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrator().Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, pool
}

// What the kit promises on SQLite, on PostgreSQL.
func TestDrainOnPostgres(t *testing.T) {
	t.Parallel()
	var did shop
	throttled := true
	var store *postgres.Store
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "third", noting(&did, "third", atThird), waybill.Options{})
		waybill.On(reg, "never", noting(&did, "never", never), waybill.Options{MaxAttempts: 2, Lane: "mail"})
		waybill.On(reg, "later", noting(&did, "later", nil), waybill.Options{Due: waybill.DueOf(later(time.Hour))})
		waybill.On(reg, "sms", noting(&did, "sms", func(int) error {
			if throttled {
				return waybill.Defer(time.Hour)
			}
			return nil
		}), waybill.Options{Lane: "sms", GiveUpAfter: 24 * time.Hour})
		postgres.OnTx(reg, "ship", func(ctx context.Context, tx pgx.Tx, order orderPlaced) error {
			_, err := store.Fire(ctx, tx, orderShipped{ID: order.ID})
			return err
		}, waybill.Options{})
	})
	store, _ = onPostgres(t, reg)
	err := store.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := store.Fire(t.Context(), tx, orderPlaced{ID: 7})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	came(t, waybilltest.Drain(t, store), 2+2+1, waybilltest.Drained{Runs: 3 + 2 + 1 + 1, Succeeded: 2, Dead: 1, Deferred: 1})
	if diff := cmp.Diff([]orderShipped{{ID: 7}}, waybilltest.Fired[orderShipped](t, store)); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
	throttled = false
	waybilltest.Advance(t, store, 3*time.Hour)
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{Runs: 2, Succeeded: 2})
}

func TestDrainTxOnPostgres(t *testing.T) {
	t.Parallel()
	var store *postgres.Store
	var did shop
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "third", noting(&did, "third", atThird), waybill.Options{})
		waybill.On(reg, "later", noting(&did, "later", nil), waybill.Options{Lane: "b", Due: waybill.DueOf(later(time.Hour))})
		postgres.OnTx(reg, "ship", func(ctx context.Context, tx pgx.Tx, order orderPlaced) error {
			if _, err := store.Fire(ctx, tx, orderShipped{ID: order.ID}); err != nil {
				return err
			}
			if waybill.DeliveryFrom(ctx).Attempt == 1 {
				return errBusy // and what it fired goes
			}
			return nil
		}, waybill.Options{})
	})
	store, pool := onPostgres(t, reg)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := store.Fire(t.Context(), tx, orderPlaced{ID: 7}); err != nil {
			return err
		}
		came(t, waybilltest.DrainTx(t, store, tx), 3, waybilltest.Drained{Runs: 5, Succeeded: 2})
		waybilltest.Advance(t, store, 2*time.Hour)
		came(t, waybilltest.DrainTx(t, store, tx), 0, waybilltest.Drained{Runs: 1, Succeeded: 1})
		if diff := cmp.Diff([]orderShipped{{ID: 7}}, waybilltest.FiredTx[orderShipped](t, store, tx)); diff != "" {
			t.Errorf("fired (-want +got):\n%s", diff)
		}
		return errBusy
	})
	if !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	if got := waybilltest.Fired[orderPlaced](t, store); len(got) != 0 {
		t.Errorf("after the rollback there is %v", got)
	}
}

func TestDrainTxOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	var did shop
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "third", noting(&did, "third", atThird), waybill.Options{})
	})
	_, pool := onPostgres(t, reg)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	store, err := postgres.OpenDB(t.Context(), db, reg)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := store.FireSQL(t.Context(), tx, orderPlaced{ID: 7}); err != nil {
		t.Fatal(err)
	}
	came(t, waybilltest.DrainTx(t, store, tx), 2, waybilltest.Drained{Runs: 3, Succeeded: 1})
}
