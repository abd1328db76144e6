package waybilltest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/waybilltest"
	"github.com/waybill-go/waybill/worker"
)

// came compares what came of a drain, but for its errors, which it counts.
func came(t *testing.T, got waybilltest.Drained, errs int, want waybilltest.Drained) {
	t.Helper()
	if len(got.Errors) != errs {
		t.Errorf("errors %v, want %d", got.Errors, errs)
	}
	got.Errors = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drained (-want +got):\n%s", diff)
	}
}

func TestDrainRunsEveryLaneAndSite(t *testing.T) {
	t.Parallel()
	var did shop
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "here", noting(&did, "here", nil), waybill.Options{})
		waybill.On(reg, "mail", noting(&did, "mail", nil), waybill.Options{Lane: "mail"})
		waybill.On(reg, "inside", noting(&did, "inside", nil), waybill.Options{Lane: "search", Site: waybill.SiteRelay})
		sqlite.OnTx(reg, "stock", func(ctx context.Context, tx *sql.Tx, _ orderPlaced) error {
			did.note("stock")
			_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS stock (n INTEGER)")
			return err
		}, waybill.Options{Lane: "stock"})
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 1})
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{Runs: 4, Succeeded: 4})
	if diff := cmp.Diff([]string{"here", "mail", "inside", "stock"}, did.log); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{})
}

// Trap 28: a drain that ignores backoffs must still end.
func TestDrainDrivesFailingReceiversToTheirEnd(t *testing.T) {
	t.Parallel()
	var did shop
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "never", noting(&did, "never", never), waybill.Options{MaxAttempts: 4, Backoff: waybill.Backoff{Base: time.Hour, Cap: 24 * time.Hour}})
		waybill.On(reg, "third", noting(&did, "third", atThird), waybill.Options{})
		waybill.On(reg, "wrong", noting(&did, "wrong", func(int) error { return waybill.Permanent(errBusy) }), waybill.Options{})
		waybill.On(reg, "panics", noting(&did, "panics", func(int) error { panic("oh") }), waybill.Options{MaxAttempts: 2})
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 1})
	drained := waybilltest.Drain(t, store)
	for _, err := range drained.Errors {
		if !errors.Is(err, errBusy) && !strings.Contains(err.Error(), `receiver "panics", delivery 4: panic: oh`) {
			t.Errorf("error %v, want the receiver's own", err)
		}
	}
	came(t, drained, 4+2+1+2, waybilltest.Drained{Runs: 10, Succeeded: 1, Dead: 3})
}

func TestDrainLeavesWhatWasDeferredWithItsLane(t *testing.T) {
	t.Parallel()
	var did shop
	throttled := true
	reg := register(t, func(reg *waybill.Registry) {
		opts := waybill.Options{Lane: "sms", GiveUpAfter: 24 * time.Hour}
		waybill.On(reg, "sms", noting(&did, "sms", func(int) error {
			if throttled {
				return waybill.Defer(time.Hour)
			}
			return nil
		}), opts)
		opts.Targets = waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return []string{"a"}, nil })
		opts.Lane = "fan"
		waybill.On(reg, "fan", noting(&did, "fan", func(int) error {
			if throttled {
				return waybill.Defer(time.Hour)
			}
			return nil
		}), opts)
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 1}, orderPlaced{ID: 2})
	// The pause of the lane keeps its second delivery; a target defers for itself.
	came(t, waybilltest.Drain(t, store), 3, waybilltest.Drained{Runs: 3, Deferred: 3})
	throttled = false
	waybilltest.Advance(t, store, 3*time.Hour)
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{Runs: 4, Succeeded: 4})
}

func TestDrainWaitsForWhatIsScheduled(t *testing.T) {
	t.Parallel()
	var did shop
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "remind", noting(&did, "remind", atThird), waybill.Options{Due: waybill.DueOf(later(72 * time.Hour))})
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 1})
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{})
	waybilltest.Advance(t, store, 71*time.Hour)
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{})
	waybilltest.Advance(t, store, 2*time.Hour)
	came(t, waybilltest.Drain(t, store), 2, waybilltest.Drained{Runs: 3, Succeeded: 1})
}

func TestDrainFollowsWhatReceiversFire(t *testing.T) {
	t.Parallel()
	var store *sqlite.Store
	reg := register(t, func(reg *waybill.Registry) {
		sqlite.OnTx(reg, "ship", func(ctx context.Context, tx *sql.Tx, order orderPlaced) error {
			_, err := store.Fire(ctx, tx, orderShipped{ID: order.ID})
			return err
		}, waybill.Options{})
		waybill.On(reg, "track", func(context.Context, orderShipped) error { return nil }, waybill.Options{Lane: "a"})
	})
	store = waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 7})
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{Runs: 2, Succeeded: 2})
	if diff := cmp.Diff([]orderShipped{{ID: 7}}, waybilltest.Fired[orderShipped](t, store)); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
}

func TestDrainOrphansWhatNobodyDeclares(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/waybill.db"
	var did shop
	for i, keys := range [][]string{{"old", "new"}, {"new"}} {
		reg := register(t, func(reg *waybill.Registry) {
			for _, key := range keys {
				waybill.On(reg, key, noting(&did, key, nil), waybill.Options{})
			}
		})
		store, err := sqlite.New(sqlite.Config{Path: path, Registry: reg})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if i == 0 {
			if _, err := store.Migrator().Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			waybilltest.Fire(t, store, orderPlaced{ID: 1})
			continue
		}
		came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{Runs: 1, Succeeded: 1, Orphaned: 1})
	}
}

// A helper of a receiver's that fails the test ends the receiver's goroutine, and not
// the drain.
func TestDrainOutlivesAReceiverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "fails", func(ctx context.Context, _ orderPlaced) error {
			inner := &testing.T{}
			inner.FailNow()
			return nil
		}, waybill.Options{MaxAttempts: 2})
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 1})
	came(t, waybilltest.Drain(t, store), 2, waybilltest.Drained{Runs: 2, Dead: 1})
}

func TestDrainGoesThroughMiddleware(t *testing.T) {
	t.Parallel()
	var did shop
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "mail", noting(&did, "mail", nil), waybill.Options{})
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{ID: 1})
	waybilltest.Drain(t, store, func(next worker.RunFunc) worker.RunFunc {
		return func(ctx context.Context, d *waybill.Delivery) error {
			did.note("before")
			defer did.note("after")
			return next(ctx, d)
		}
	})
	if diff := cmp.Diff([]string{"before", "mail", "after"}, did.log); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
}

func TestDrainTxGoesWithItsTransaction(t *testing.T) {
	t.Parallel()
	var did shop
	var store *sqlite.Store
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "third", noting(&did, "third", atThird), waybill.Options{})
		sqlite.OnTx(reg, "ship", func(ctx context.Context, tx *sql.Tx, order orderPlaced) error {
			if _, err := store.Fire(ctx, tx, orderShipped{ID: order.ID}); err != nil {
				return err
			}
			if waybill.DeliveryFrom(ctx).Attempt == 1 {
				return errBusy // and what it fired goes
			}
			return nil
		}, waybill.Options{})
	})
	store = waybilltest.SQLite(t, reg)
	rollBack := errors.New("roll back")
	err := store.InTx(t.Context(), func(tx *sql.Tx) error {
		if _, err := store.Fire(t.Context(), tx, orderPlaced{ID: 7}); err != nil {
			return err
		}
		came(t, waybilltest.DrainTx(t, store, tx), 3, waybilltest.Drained{Runs: 5, Succeeded: 2})
		if diff := cmp.Diff([]orderShipped{{ID: 7}}, waybilltest.FiredTx[orderShipped](t, store, tx)); diff != "" {
			t.Errorf("fired (-want +got):\n%s", diff)
		}
		return rollBack
	})
	if !errors.Is(err, rollBack) {
		t.Fatal(err)
	}
	if got := waybilltest.Fired[orderPlaced](t, store); len(got) != 0 {
		t.Errorf("after the rollback there is %v", got)
	}
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{})
}
