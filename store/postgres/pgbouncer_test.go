package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/storetest"
)

// pooled returns a pool of connections to a PgBouncer in the given mode of sending
// statements.
func pooled(t testing.TB, url string, conns int32, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	config.ConnConfig.DefaultQueryExecMode = mode
	return newPoolOf(t, config)
}

// behindPgBouncer returns the URL of a database, and one that leads to it through a
// PgBouncer in transaction mode.
func behindPgBouncer(t *testing.T) (direct, through string) {
	t.Helper()
	direct = services.Postgres(t)
	// No server is crashed here, and a PgBouncer passes no setting of a client's on.
	pool := newPool(t, direct, 1)
	exec(t, pool, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
	return direct, services.OwnPgBouncer(t, direct)
}

// TestStoreBehindPgBouncer runs the conformance suite through a PgBouncer in
// transaction mode, with more clients than it has connections, and among them some
// of each mode that it can carry: they share what a mode leaves on a connection.
func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	_, url := behindPgBouncer(t)
	var pools []*pgxpool.Pool
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		pools = append(pools, pooled(t, url, 6, mode))
	}
	var schemas atomic.Int64
	storetest.Run(t, func(t *testing.T, reg *waybill.Registry) storetest.Harness {
		n := schemas.Add(1)
		h := harness(t, pools[int(n)%len(pools)], reg, fmt.Sprintf("case_%d", n))
		h.Deaf = true
		if err := h.Exec(t.Context(), h.Migrator.SQL()); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

// TestCheckKnowsItsPooler: where what the pool prepares would be another client's, or
// not there, that is said before anything goes wrong. Where it would not, nothing is.
func TestCheckKnowsItsPooler(t *testing.T) {
	t.Parallel()
	direct, through := behindPgBouncer(t)
	migrate(t, pooled(t, direct, 1, pgx.QueryExecModeCacheStatement), "")
	session := services.OwnSessionPgBouncer(t, direct)
	for _, c := range []struct {
		name, url string
		mode      pgx.QueryExecMode
		refused   bool
	}{
		{"direct", direct, pgx.QueryExecModeCacheStatement, false},
		{"session mode", session, pgx.QueryExecModeCacheStatement, false},
		{"transaction mode, statements prepared", through, pgx.QueryExecModeCacheStatement, true},
		{"transaction mode, statements prepared, again", through, pgx.QueryExecModeCacheStatement, true},
		{"transaction mode, statements described", through, pgx.QueryExecModeCacheDescribe, false},
		{"transaction mode, nothing kept", through, pgx.QueryExecModeExec, false},
	} {
		store := newStore(t, postgres.Config{Pool: pooled(t, c.url, 1, c.mode), Registry: orders()})
		err := store.Check(t.Context())
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.refused && (err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=cache_describe") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: the error is %v", c.name, err)
		}
	}
}

// TestListenBehindPgBouncer: in transaction mode a listener would be deaf, and says
// so; in session mode it hears. What is sent through either arrives.
func TestListenBehindPgBouncer(t *testing.T) {
	t.Parallel()
	direct, through := behindPgBouncer(t)
	migrate(t, newPool(t, direct, 1), "")
	open := func(url string) *postgres.Store {
		return newStore(t, postgres.Config{
			Pool: pooled(t, url, 2, pgx.QueryExecModeExec), Registry: lanes(), WakeInterval: -1, CallTimeout: 4 * time.Second,
		})
	}
	behind, beside, session := open(through), open(direct), open(services.OwnSessionPgBouncer(t, direct))
	for range 2 { // what the first one leaves on a connection wakes no second
		err := behind.Listen(t.Context(), "mail", func() { t.Error("it hears") })
		if !errors.Is(err, waybill.ErrDeaf) || !strings.Contains(err.Error(), "--wake=poll") {
			t.Errorf("Listen in transaction mode: %v", err)
		}
	}
	if err := behind.CheckListen(t.Context()); !errors.Is(err, waybill.ErrDeaf) {
		t.Errorf("CheckListen in transaction mode: %v", err)
	}
	patient := newStore(t, postgres.Config{Pool: pooled(t, through, 2, pgx.QueryExecModeExec), Registry: lanes()})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := patient.CheckListen(ctx); !errors.Is(err, waybill.ErrDeaf) {
		t.Errorf("CheckListen in transaction mode, asked by somebody who waits for half of a call: %v", err)
	}
	for name, store := range map[string]*postgres.Store{"direct": beside, "session": session} {
		if err := store.CheckListen(t.Context()); err != nil {
			t.Errorf("CheckListen, %s: %v", name, err)
		}
		l := listenTo(t, store, "mail")
		for _, sender := range []*postgres.Store{behind, beside, session} {
			fire(t, sender, to("mail"))
			l.wake(t, name)
		}
	}
}

// TestListenIsProvenLater: the pool had no connection when it began, and a silence is
// the next time to ask.
func TestListenIsProvenLater(t *testing.T) {
	t.Parallel()
	_, through := behindPgBouncer(t)
	pool := pooled(t, through, 1, pgx.QueryExecModeExec)
	store := newStore(t, postgres.Config{Pool: pool, Registry: lanes(), CallTimeout: 2 * time.Second})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := listenTo(t, store, "mail")
	conn.Release()
	if err := l.returnsError(t); !errors.Is(err, waybill.ErrDeaf) {
		t.Errorf("Listen returned %v, want ErrDeaf", err)
	}
}

// TestMigrateThroughPgBouncer: several at once, with fewer connections than there are
// of them, and nothing is left on any.
func TestMigrateThroughPgBouncer(t *testing.T) {
	t.Parallel()
	direct, through := behindPgBouncer(t)
	watcher := newPool(t, direct, 1)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe} {
		applied := migrateAtOnce(t, 6, func() *pgxpool.Pool { return pooled(t, through, 1, mode) })
		migrator, err := postgres.NewMigrator(pooled(t, through, 1, mode), "")
		if err != nil {
			t.Fatal(err)
		}
		steps, err := migrator.Status(t.Context())
		if err != nil || applied != len(steps) {
			t.Errorf("%d steps were applied by all of them, of %d: %v", applied, len(steps), err)
		}
		if n := count(t, watcher, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
			t.Errorf("%d advisory locks are held when all is done", n)
		}
		clean(t, pooled(t, through, 1, pgx.QueryExecModeSimpleProtocol))
		for down, err := migrator.Down(t.Context()); len(down) > 0 || err != nil; down, err = migrator.Down(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// clean fails the test if somebody has left a setting on a connection of the pooler
// that is none of a client's start.
func clean(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var held []pgx.Tx
	for range 3 { // as many as it has
		tx, err := newPoolOf(t, pool.Config()).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, tx)
		var settings string
		if err := tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(name || '=' || setting, ', '), '') FROM pg_settings
 WHERE source = 'session' AND name NOT IN ('client_encoding', 'DateStyle', 'TimeZone', 'application_name', 'standard_conforming_strings')`).Scan(&settings); err != nil {
			t.Fatal(err)
		}
		if settings != "" {
			t.Errorf("a connection was left with %s", settings)
		}
	}
	for _, tx := range held {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestTransactionsThroughPgBouncer: many clients claim jointly and run receivers in
// transactions over few connections; each delivery has its one effect, and the
// settings of those transactions end with them.
func TestTransactionsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	direct, through := behindPgBouncer(t)
	setup := newPool(t, direct, 1)
	migrate(t, setup, "")
	exec(t, setup, "CREATE TABLE stock (id bigint)")
	pool := pooled(t, through, 8, pgx.QueryExecModeCacheDescribe)
	store, err := postgres.Open(t.Context(), pool, orders())
	if err != nil {
		t.Fatal(err)
	}
	workThrough(t, store, 20)
	if n := count(t, setup, "SELECT count(DISTINCT id) FROM stock"); n != 20 {
		t.Errorf("%d orders in stock, want 20", n)
	}
	clean(t, pool)
}
