package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/waybilltest"
	"github.com/waybill-go/waybill/worker"
)

// rolledBack is a store, bound to a transaction that a test rolls back.
type rolledBack struct {
	*postgres.Store
	parent *postgres.Store
	pool   *pgxpool.Pool // beside the transaction
	fire   func(events ...any)
	exec   func(ctx context.Context, tx any, sql string) error
	tx     any
}

// withinEach runs a test in a transaction of each kind, and sees that nothing remains.
func withinEach(t *testing.T, test func(t *testing.T, b rolledBack)) {
	run := func(name string, begin func(t *testing.T) (b rolledBack, rollback func())) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rollback := begin(t)
			var err error
			if b.Store, err = b.parent.Within(b.tx); err != nil {
				t.Fatal(err)
			}
			test(t, b)
			if err := b.exec(t.Context(), b.tx, "SELECT 1"); err != nil {
				t.Errorf("the transaction is no longer of use: %v", err)
			}
			rollback()
			for _, table := range []string{"waybill.event", "waybill.delivery", "waybill.lane_pause", "stock"} {
				if n := count(t, b.pool, "SELECT count(*) FROM "+table); n != 0 {
					t.Errorf("%d rows remain in %s", n, table)
				}
			}
		})
	}
	run("pool", func(t *testing.T) (rolledBack, func()) {
		parent, pool := newOrders(t, 2)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		return rolledBack{
				parent: parent, pool: pool, tx: tx,
				fire: func(events ...any) {
					t.Helper()
					if _, err := parent.FireAll(t.Context(), tx, events); err != nil {
						t.Fatal(err)
					}
				},
				exec: func(ctx context.Context, tx any, sql string) error {
					_, err := tx.(pgx.Tx).Exec(ctx, sql)
					return err
				},
			}, func() {
				if err := tx.Rollback(t.Context()); err != nil {
					t.Error(err)
				}
			}
	})
	for _, d := range sqlDrivers {
		run(d.name, func(t *testing.T) (rolledBack, func()) {
			parent, db, pool := newSQLOrders(t, d)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback() })
			return rolledBack{
					parent: parent, pool: pool, tx: tx,
					fire: func(events ...any) {
						t.Helper()
						if _, err := parent.FireAllSQL(t.Context(), tx, events); err != nil {
							t.Fatal(err)
						}
					},
					exec: func(ctx context.Context, tx any, text string) error {
						_, err := tx.(*sql.Tx).ExecContext(ctx, text)
						return err
					},
				}, func() {
					if err := tx.Rollback(); err != nil {
						t.Error(err)
					}
				}
		})
	}
}

func (b rolledBack) states(t *testing.T, ids ...int64) []waybill.RowState {
	t.Helper()
	states, err := b.Look(t.Context(), ids)
	if err != nil || len(states) != len(ids) {
		t.Fatalf("looked at %+v (%v)", states, err)
	}
	return states
}

// TestWithinATransaction goes the whole way of a delivery, several times, in a
// transaction that nobody else sees anything of.
func TestWithinATransaction(t *testing.T) {
	t.Parallel()
	withinEach(t, func(t *testing.T, b rolledBack) {
		b.fire(orderPlaced{1})
		if n := count(t, b.pool, "SELECT count(*) FROM waybill.delivery"); n != 0 {
			t.Fatalf("%d rows are seen from outside", n)
		}
		first := claim(t, b.Store, 10, "mail")
		if len(first) != 1 {
			t.Fatalf("claimed %d rows, want 1", len(first))
		}
		// Given back it is claimed again, under a later stamp in the same instant.
		if ids, err := b.GiveBack(t.Context(), []waybill.GiveBack{{Message: first[0]}}); err != nil || len(ids) != 1 {
			t.Fatalf("gave back %v (%v)", ids, err)
		}
		rows, err := b.ClaimLapsed(t.Context(), waybill.LapsedRequest{By: "relay", Limit: 10, Lease: time.Minute})
		if err != nil || len(rows) != 1 || rows[0].Claim.At <= first[0].Claim.At {
			t.Fatalf("after %s claimed %+v (%v)", first[0].Claim.At, rows, err)
		}
		if stale := take(t, b.Store, first...); len(stale) != 0 {
			t.Error("took a row under a claim that it is no longer under")
		}
		taken := take(t, b.Store, rows[0].Message)
		if len(taken) != 1 || taken[0].Attempt != 1 || string(taken[0].Event.Payload) != `{"ID":1}` {
			t.Fatalf("took %+v", taken)
		}
		// A retry that need not wait is due at once, and one that waits when the clock,
		// which is both stores', is there.
		for attempt, wait := range []time.Duration{0, time.Hour} {
			failed := waybill.Ack{Message: messageOf(taken[0]), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: wait, Error: "broken"}}
			if ids, err := b.Ack(t.Context(), []waybill.Ack{failed}); err != nil || len(ids) != 1 {
				t.Fatalf("acknowledged %v (%v)", ids, err)
			}
			if wait > 0 {
				if early := claim(t, b.Store, 10, "mail"); len(early) != 0 {
					t.Fatal("claimed a row that waits")
				}
				b.parent.SetClockOffset(b.ClockOffset() + wait)
				if b.ClockOffset() != wait || b.parent.ClockOffset() != wait {
					t.Fatalf("the clocks are off by %s and %s", b.ClockOffset(), b.parent.ClockOffset())
				}
			}
			taken = take(t, b.Store, claim(t, b.Store, 10, "mail")...)
			if len(taken) != 1 || taken[0].Attempt != attempt+2 {
				t.Fatalf("attempt %d: took %+v", attempt+2, taken)
			}
		}
		if ids, err := b.Ack(t.Context(), []waybill.Ack{succeeded(taken[0])}); err != nil || len(ids) != 1 {
			t.Fatalf("acknowledged %v (%v)", ids, err)
		}
		if state := b.states(t, taken[0].ID)[0]; state.Status != waybill.Succeeded {
			t.Errorf("the row is %s", state.Status)
		}
		if err := b.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := b.PauseLane(t.Context(), waybill.PauseRequest{Lane: "mail", By: "test"}); err != nil {
			t.Error(err)
		}
	})
}

// TestRunTxWithinATransaction: what a receiver wrote is undone with it, and the rest of
// the transaction is not.
func TestRunTxWithinATransaction(t *testing.T) {
	t.Parallel()
	withinEach(t, func(t *testing.T, b rolledBack) {
		b.fire(orderPlaced{1}, orderPlaced{2}, orderPlaced{3})
		deliveries := take(t, b.Store, claim(t, b.Store, 10, "stock")...)
		if len(deliveries) != 3 {
			t.Fatalf("took %d rows", len(deliveries))
		}
		run := func(d *waybill.Delivery, then func(ctx context.Context, tx any) error) (bool, error) {
			receiver, _ := b.Registry().Receiver("stock")
			return b.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
				return errors.Join(receiver.RunTx(ctx, tx, d), then(ctx, tx))
			})
		}
		if landed, err := run(deliveries[0], func(context.Context, any) error { return nil }); err != nil || !landed {
			t.Fatalf("landed: %t (%v)", landed, err)
		}
		broken := errors.New("broken")
		if landed, err := run(deliveries[1], func(context.Context, any) error { return broken }); !errors.Is(err, broken) || landed {
			t.Fatalf("landed: %t (%v)", landed, err)
		}
		// A statement that fails would end the transaction.
		if landed, err := run(deliveries[2], func(ctx context.Context, tx any) error { return b.exec(ctx, tx, "SELECT 1/0") }); err == nil || landed {
			t.Fatalf("landed: %t (%v)", landed, err)
		}
		want := []waybill.Status{waybill.Succeeded, waybill.Claimed, waybill.Claimed}
		for i, d := range deliveries {
			if state := b.states(t, d.ID)[0]; state.Status != want[i] {
				t.Errorf("row %d is %s, want %s", i, state.Status, want[i])
			}
		}
		if err := b.exec(t.Context(), b.tx, "DO $$ BEGIN IF (SELECT count(*) FROM stock WHERE id = 1) <> 1 OR (SELECT count(*) FROM stock) <> 1 THEN RAISE 'stock'; END IF; END $$"); err != nil {
			t.Errorf("more or less than the first receiver's row is there: %v", err)
		}
	})
}

// TestAStepThatFailsWithinATransaction leaves it to go on.
func TestAStepThatFailsWithinATransaction(t *testing.T) {
	t.Parallel()
	withinEach(t, func(t *testing.T, b rolledBack) {
		b.fire(orderPlaced{1})
		if err := b.exec(t.Context(), b.tx, "ALTER TABLE waybill.delivery RENAME TO gone"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Claim(t.Context(), mail(1)); err == nil {
			t.Fatal("claimed without a table")
		}
		if err := b.exec(t.Context(), b.tx, "ALTER TABLE waybill.gone RENAME TO delivery"); err != nil {
			t.Fatal(err)
		}
		if rows := claim(t, b.Store, 10, "mail"); len(rows) != 1 {
			t.Errorf("claimed %d rows, want 1", len(rows))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Claim(ended, mail(1)); err == nil {
			t.Error("claimed in a context that has ended")
		}
	})
}

// TestWithinATransactionOneGoesOnAtATime: a step waits for a receiver that runs, and
// gives up in the time of a call.
func TestWithinATransactionOneGoesOnAtATime(t *testing.T) {
	t.Parallel()
	withinEach(t, func(t *testing.T, b rolledBack) {
		b.fire(orderPlaced{1})
		delivery := take(t, b.Store, claim(t, b.Store, 1, "stock")...)[0]
		done := make(chan error, 1)
		landed, err := b.RunTx(t.Context(), succeeded(delivery), func(ctx context.Context, tx any) error {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if _, err := b.Claim(short, mail(1)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "same transaction") {
				t.Errorf("claimed amid a run: %v", err)
			}
			go func() {
				rows, err := b.Claim(t.Context(), mail(10))
				if err == nil && len(rows) != 1 {
					err = errors.New("claimed no row")
				}
				done <- err
			}()
			return b.exec(ctx, tx, "INSERT INTO stock VALUES (1)")
		})
		if err != nil || !landed {
			t.Errorf("landed: %t (%v)", landed, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestWithinATransactionNobodyIsWoken: what it fires may never have been.
func TestWithinATransactionNobodyIsWoken(t *testing.T) {
	t.Parallel()
	withinEach(t, func(t *testing.T, b rolledBack) {
		s := newSentry(t, b.pool)
		fire := func(tx any) error {
			if tx, ok := tx.(*sql.Tx); ok {
				_, err := b.FireSQL(t.Context(), tx, orderPlaced{1})
				return err
			}
			_, err := b.Fire(t.Context(), tx.(pgx.Tx), orderPlaced{1})
			return err
		}
		var err error
		if b.TxKind() == "pgx.Tx" {
			err = b.InTx(t.Context(), func(tx pgx.Tx) error { return fire(tx) })
		} else {
			err = b.InSQLTx(t.Context(), func(tx *sql.Tx) error { return fire(tx) })
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Wake(t.Context())
		s.hears(t, "what is bound to a transaction")
		if interval := b.WakeInterval(); interval >= 0 {
			t.Errorf("it says that a wake of its own stands for others for %s, and sends none", interval)
		}
		if err := b.Listen(t.Context(), "mail", func() { t.Error("it wakes") }); !errors.Is(err, waybill.ErrDeaf) {
			t.Errorf("Listen returned %v, want ErrDeaf", err)
		}
		if rows := claim(t, b.Store, 10, "mail"); len(rows) != 1 {
			t.Errorf("claimed %d rows, want 1", len(rows))
		}
	})
}

// TestWhatIsFiredWithinIsTheCallersToWake: a receiver that runs in the caller's
// transaction fires in it as well.
func TestWhatIsFiredWithinIsTheCallersToWake(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	s := newSentry(t, pool)
	err := store.InTx(t.Context(), func(tx pgx.Tx) error {
		bound, err := store.Within(tx)
		if err != nil {
			return err
		}
		return bound.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := bound.Fire(t.Context(), tx, orderPlaced{1})
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.hears(t, "the caller's commit", "default")
}

// TestDrainTx: the kit with which receivers are tested delivers within a transaction.
func TestDrainTx(t *testing.T) {
	t.Parallel()
	withinEach(t, func(t *testing.T, b rolledBack) {
		b.fire(orderPlaced{1}, orderPlaced{2})
		failed := false
		drained := waybilltest.DrainTx(t, b.parent, b.tx, func(next worker.RunFunc) worker.RunFunc {
			return func(ctx context.Context, d *waybill.Delivery) error {
				if !failed && d.Receiver == "stock" {
					failed = true
					return errors.New("once")
				}
				return next(ctx, d)
			}
		})
		if drained.Succeeded != 4 || drained.Runs != 5 || len(drained.Errors) != 1 {
			t.Errorf("drained %+v, want 4 deliveries in 5 runs", drained)
		}
		if err := b.exec(t.Context(), b.tx, "DO $$ BEGIN IF (SELECT count(*) FROM stock) <> 2 THEN RAISE 'stock'; END IF; END $$"); err != nil {
			t.Errorf("not both are in the stock: %v", err)
		}
	})
}

func TestWithinIsOfATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 1)
	for _, tx := range []any{nil, pool, (*sql.Tx)(nil), &sql.DB{}} {
		if _, err := store.Within(tx); err == nil || !strings.Contains(err.Error(), "a pgx.Tx or a *sql.Tx") {
			t.Errorf("within a %T: %v", tx, err)
		}
	}
}

func messageOf(d *waybill.Delivery) waybill.Message {
	return waybill.Message{DeliveryID: d.ID, Claim: d.Claim}
}
