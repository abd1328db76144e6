package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// counted counts the statements of a transaction, of whichever kind.
type counted struct {
	tx         postgres.DB
	sql        postgres.SQLTx
	statements *atomic.Int64
}

func (c counted) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	c.statements.Add(1)
	return c.tx.Exec(ctx, text, args...)
}

func (c counted) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	c.statements.Add(1)
	return c.tx.Query(ctx, text, args...)
}

func (c counted) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	c.statements.Add(1)
	return c.sql.ExecContext(ctx, text, args...)
}

func (c counted) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	c.statements.Add(1)
	return c.sql.QueryContext(ctx, text, args...)
}

// manyTargets declares a fan-out to that many targets.
func manyTargets(n int) *waybill.Registry {
	targets := make([]string, n)
	for i := range targets {
		targets[i] = fmt.Sprintf("https://example.test/hooks/%d?%s", i, strings.Repeat("x", i%100))
	}
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "hook", func(context.Context, orderPlaced) error { return nil }, waybill.Options{
		Targets: waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return targets, nil }),
	})
	return reg
}

// TestTwentyThousandTargetsAreOneStatement, over each driver.
// Trap 79: a row at a time, by way of a library.
func TestTwentyThousandTargetsAreOneStatement(t *testing.T) {
	t.Parallel()
	const targets = 20_000
	_, pool := newOrders(t, 2)
	store := newStore(t, postgres.Config{Pool: pool, Registry: manyTargets(targets)})
	fired := func(t *testing.T, fire func(statements *atomic.Int64) (int64, error)) {
		t.Helper()
		var statements atomic.Int64
		id, err := fire(&statements)
		if err != nil {
			t.Fatal(err)
		}
		if n := statements.Load(); n != 1 {
			t.Errorf("it took %d statements", n)
		}
		if n := count(t, pool, fmt.Sprintf("SELECT count(DISTINCT target_digest) FROM waybill.delivery WHERE event_id = %d", id)); n != targets {
			t.Errorf("%d rows, want %d", n, targets)
		}
	}
	t.Run("pool", func(t *testing.T) {
		fired(t, func(statements *atomic.Int64) (int64, error) {
			return store.Fire(t.Context(), counted{tx: pool, statements: statements}, orderPlaced{1})
		})
	})
	for _, d := range sqlDrivers {
		t.Run(d.name, func(t *testing.T) {
			db := d.open(t, pool.Config().ConnString(), 1)
			fired(t, func(statements *atomic.Int64) (int64, error) {
				return store.FireSQL(t.Context(), counted{sql: db, statements: statements}, orderPlaced{1})
			})
		})
	}
}

// TestFireSQL fires in what is the transaction of its caller, by whatever name, over a
// store that is over pgx.
func TestFireSQL(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		_, db, pool := newSQLOrders(t, d)
		reg := waybill.NewRegistry()
		waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
		var seen any
		waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return nil }, waybill.Options{
			Targets: waybill.TargetsOfTx(func(_ context.Context, tx postgres.SQLTx, event orderPlaced) ([]string, error) {
				seen = tx
				return []string{"x", "y"}, nil
			}),
		})
		store := newStore(t, postgres.Config{Pool: pool, Registry: reg})
		owed := func() int { return count(t, pool, "SELECT count(*) FROM waybill.delivery") }
		begin := func() *sql.Tx {
			t.Helper()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback() })
			return tx
		}
		tx := begin()
		if _, err := store.FireSQL(t.Context(), tx, orderPlaced{1}); err != nil {
			t.Fatal(err)
		}
		if seen != any(tx) {
			t.Errorf("targets were given a %T, want the transaction itself", seen)
		}
		if n := owed(); n != 0 {
			t.Errorf("%d rows before the commit", n)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := owed(); n != 2 {
			t.Errorf("%d rows after the commit, want 2", n)
		}
		tx = begin()
		if _, err := store.FireAllSQL(t.Context(), hidden{tx}, []any{orderPlaced{1}, orderPlaced{2}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n := owed(); n != 2 {
			t.Errorf("%d rows after a rollback, want the 2 from before", n)
		}
		if _, err := store.FireSQL(t.Context(), db, orderPlaced{1}); err != nil {
			t.Fatal(err)
		}
		if n := owed(); n != 4 {
			t.Errorf("%d rows after an event by itself, want 4", n)
		}
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := store.FireSQL(t.Context(), conn, orderPlaced{1}); err != nil || owed() != 6 {
			t.Errorf("%d rows after an event over a connection, want 6 (%v)", owed(), err)
		}
	})
}

// TestFireSQLKeepsTheFactsOfAnEvent, and the dedupe key keeps its word.
func TestFireSQLKeepsTheFactsOfAnEvent(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		store, db, pool := newSQLOrders(t, d, "TimeZone", "Asia/Kathmandu")
		occurred := time.Date(2026, 3, 29, 1, 59, 59, 123457000, time.UTC)
		first, err := store.FireSQL(t.Context(), db, waybill.Envelope{Event: orderPlaced{1}, DedupeKey: `o"1\`, OccurredAt: occurred, CorrelationID: "c{1}"})
		if err != nil {
			t.Fatal(err)
		}
		var key, correlation string
		var at time.Time
		if err := pool.QueryRow(t.Context(), "SELECT dedupe_key, correlation_id, occurred_at FROM waybill.event").Scan(&key, &correlation, &at); err != nil ||
			key != `o"1\` || correlation != "c{1}" || !at.Equal(occurred) {
			t.Errorf("got %q, %q and %s (%v)", key, correlation, at, err)
		}
		err = store.InSQLTx(t.Context(), func(tx *sql.Tx) error {
			_, err := store.FireAllSQL(t.Context(), tx, []any{orderPlaced{2}, waybill.Envelope{Event: orderPlaced{3}, DedupeKey: `o"1\`}})
			var duplicate *waybill.DuplicateError
			if !errors.As(err, &duplicate) || duplicate.EventID != first {
				t.Errorf("got %v, want a duplicate of event %d", err, first)
			}
			return nil // the transaction goes on
		})
		if n := count(t, pool, "SELECT count(*) FROM waybill.event"); err != nil || n != 1 {
			t.Errorf("%d events (%v), want the first", n, err)
		}
		_, err = store.FireAllSQL(t.Context(), db, []any{orderPlaced{2}, waybill.Envelope{Event: orderPlaced{3}, DedupeKey: "k"}})
		if err == nil || !strings.Contains(err.Error(), "need a transaction") {
			t.Errorf("several with a key, without a transaction: %v", err)
		}
		taken := take(t, store, claim(t, store, 1, "mail")...)
		if len(taken) != 1 || !taken[0].Event.OccurredAt.Equal(occurred) || taken[0].Event.CorrelationID != "c{1}" || !json.Valid(taken[0].Event.Payload) {
			t.Errorf("took %+v", taken)
		}
	})
}

// BenchmarkTargets is the cost of each of 20,000 targets:
//
//	go test -run - -bench Targets -benchtime 10x ./store/postgres
func BenchmarkTargets(b *testing.B) {
	const targets = 20_000
	pool := benchPool(b)
	store := newStore(b, postgres.Config{Pool: pool, Registry: manyTargets(targets)})
	bench := func(name string, fire func(ctx context.Context) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := fire(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*targets), "µs/target")
		})
	}
	bench("pool", func(ctx context.Context) error {
		_, err := store.Fire(ctx, pool, orderPlaced{1})
		return err
	})
	for _, d := range sqlDrivers {
		db := d.open(b, pool.Config().ConnString(), 1)
		bench(d.name, func(ctx context.Context) error {
			_, err := store.FireSQL(ctx, db, orderPlaced{1})
			return err
		})
	}
}
