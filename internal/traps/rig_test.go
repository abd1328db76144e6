package traps

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// store is all that a store can do.
type store interface {
	fault.Inner
	waybill.StatusReader
}

// rig is a whole deployment on a database of its own: the store, a relay, a queue and
// a worker, which works while the rig serves. Time is the database's, and the test
// moves it.
type rig struct {
	*testing.T
	reg       *waybill.Registry
	txKind    string
	openStore func(*rig)
	store     store
	fault     *fault.Store
	queue     *queue
	log       *logtest.Log
	db        *sql.DB // the tables, behind the back of all of them
	clock     func(offset time.Duration)
	fire      func(events ...any)
	micro     string // a column in microseconds, or 0
}

// queue is the local one, and keeps what it was handed.
type queue struct {
	*local.Backend
	before func() // a batch is enqueued
	sent   []waybill.Message
}

func (q *queue) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	if q.before != nil {
		q.before()
	}
	q.sent = append(q.sent, messages...)
	return q.Backend.Enqueue(ctx, messages)
}

// testCase is played on each of the stores. It declares receivers in the rig's
// registry, and opens the store then.
type testCase struct {
	name string
	run  func(r *rig)
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t) // of which each case has a schema
	for i, c := range slices.Concat(outcomeCases, rowCases) {
		for name, way := range map[string]struct {
			txKind string
			open   func(*rig)
		}{
			"sqlite":   {sqlite.TxKind, openSQLite},
			"postgres": {"pgx.Tx", func(r *rig) { openPostgres(r, address, fmt.Sprintf("case_%d", i)) }},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(&rig{T: t, reg: waybill.NewRegistry(), txKind: way.txKind, openStore: way.open})
			})
		}
	}
}

// open opens the store.
func (r *rig) open() {
	r.Helper()
	r.must(r.reg.Err())
	r.openStore(r)
	r.fault = fault.NewStore(r.store)
	backend, err := local.New(local.Config{})
	r.must(err)
	r.queue = &queue{Backend: backend}
}

func openSQLite(r *rig) {
	path := filepath.Join(r.TempDir(), "waybill.db")
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: r.reg})
	r.must(err)
	r.Cleanup(func() { r.must(store.Close()) })
	_, err = store.Migrator().Up(r.Context())
	r.must(err)
	r.db, err = sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
	r.must(err)
	r.Cleanup(func() { r.must(r.db.Close()) })
	r.store, r.clock, r.micro = store, store.SetClockOffset, "COALESCE(%s, 0)"
	r.fire = func(events ...any) {
		r.Helper()
		r.must(store.InTx(r.Context(), func(tx *sql.Tx) error {
			_, err := store.FireAll(r.Context(), tx, events)
			return err
		}))
	}
}

func openPostgres(r *rig, address, schema string) {
	config, err := pgxpool.ParseConfig(address)
	r.must(err)
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // no test here crashes the server
	pool, err := pgxpool.NewWithConfig(r.Context(), config)
	r.must(err)
	r.Cleanup(pool.Close)
	migrator, err := postgres.NewMigrator(pool, schema)
	r.must(err)
	_, err = pool.Exec(r.Context(), migrator.SQL(), pgx.QueryExecModeSimpleProtocol)
	r.must(err)
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: r.reg, Schema: schema})
	r.must(err)
	r.db = stdlib.OpenDB(*config.ConnConfig)
	r.Cleanup(func() { r.must(r.db.Close()) })
	r.store, r.clock, r.micro = store, store.SetClockOffset, "COALESCE((extract(epoch FROM %s) * 1000000)::bigint, 0)"
	r.fire = func(events ...any) {
		r.Helper()
		tx, err := pool.Begin(r.Context())
		r.must(err)
		_, err = store.FireAll(r.Context(), tx, events)
		r.must(err)
		r.must(tx.Commit(r.Context()))
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// serve starts a worker, and returns a relay that the test makes hand off.
func (r *rig) serve() *relay.Relay {
	r.Helper()
	var config worker.Config
	config.Store, config.Backend = r.fault, r.queue
	config.Logger, r.log = logtest.New()
	w, err := worker.New(config)
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.Cleanup(func() {
		cancel()
		r.must(<-done)
	})
	logger, _ := logtest.New()
	each, err := relay.New(relay.Config{Store: r.fault, Backend: r.queue, Local: r.queue, Logger: logger})
	r.must(err)
	return each
}

// round hands off what is due, which has to be so many rows, and waits until the
// worker has done with them.
func (r *rig) round(each *relay.Relay, want int) {
	r.Helper()
	got, err := each.Once(r.Context(), 0)
	r.must(err)
	if got != want {
		r.Fatalf("handed off %d rows, want %d: %+v", got, want, r.rows())
	}
	r.await()
}

// await waits until no row is with a worker, or on its way to one.
func (r *rig) await() {
	r.Helper()
	poll.Until(r.T, "the worker to be done", func() bool {
		return r.number("SELECT count(*) FROM delivery WHERE status = 'claimed' AND handed_off_at IS NOT NULL") == 0
	})
}

// at moves the database's clock to a moment.
func (r *rig) at(moment waybill.Stamp) { r.clock(time.Until(moment.Time())) }

func (r *rig) exec(query string, args ...any) {
	r.Helper()
	_, err := r.db.ExecContext(context.Background(), fmt.Sprintf(query, args...))
	r.must(err)
}

func (r *rig) number(query string, args ...any) (n int) {
	r.Helper()
	r.must(r.db.QueryRowContext(context.Background(), fmt.Sprintf(query, args...)).Scan(&n))
	return n
}

// row is a delivery as it stands in the database.
type row struct {
	ID, Event                    int64
	Receiver, Target             string
	Status                       waybill.Status
	Attempts, Starts             int
	Available, Due, Taken, Lease waybill.Stamp
	Error                        string
}

// rows returns all rows by id.
func (r *rig) rows() (all []row) {
	r.Helper()
	micros := func(column string) string { return fmt.Sprintf(r.micro, column) }
	found, err := r.db.QueryContext(context.Background(), fmt.Sprintf(
		"SELECT id, event_id, receiver, target, status, attempts, starts, %s, %s, %s, %s, last_error FROM delivery ORDER BY id",
		micros("available_at"), micros("due_at"), micros("taken_at"), micros("lease_expires_at")))
	r.must(err)
	defer found.Close()
	for found.Next() {
		var each row
		r.must(found.Scan(&each.ID, &each.Event, &each.Receiver, &each.Target, &each.Status, &each.Attempts, &each.Starts,
			&each.Available, &each.Due, &each.Taken, &each.Lease, &each.Error))
		all = append(all, each)
	}
	r.must(found.Err())
	return all
}

// only returns the one row there is.
func (r *rig) only() row {
	r.Helper()
	all := r.rows()
	if len(all) != 1 {
		r.Fatalf("there are %d rows, want one: %+v", len(all), all)
	}
	return all[0]
}

// owe makes all rows owed since a moment, as if by an operator.
func (r *rig) owe(since waybill.Stamp) {
	r.Helper()
	moment := fmt.Sprint(int64(since))
	if r.txKind != sqlite.TxKind {
		moment = "'" + since.String() + "'"
	}
	r.exec("UPDATE delivery SET due_at = %[1]s, available_at = %[1]s", moment)
}

// refusal waits until the worker has said that it refused a message, and why.
func (r *rig) refusal(why string) {
	r.Helper()
	poll.Until(r.T, "a message to be refused", func() bool {
		return len(r.log.Lines("message carried a claim the row no longer holds", why)) > 0
	})
}
