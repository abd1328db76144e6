package relay_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/sqlite"
)

// database is a store, and ways around it.
type database struct {
	store fault.Inner
	clock func(offset time.Duration)
	inTx  func(ctx context.Context, work func(tx any) error) error
	fire  func(ctx context.Context, tx any, events []any) error
	exec  func(ctx context.Context, tx any, query string) error
	// read calls row with what scans each row of a query.
	read func(ctx context.Context, tx any, query string, row func(scan func(...any) error) error) error
	// micros is an interval between two columns in microseconds.
	micros string
}

// open opens an empty database of its own.
type open func(t *testing.T, reg *waybill.Registry, timeout time.Duration) database

// stores are the ways to open a database, by the store's name. Those on Postgres are
// schemas of one.
func stores(t *testing.T) map[string]open {
	t.Helper()
	address := services.Postgres(t)
	var schemas atomic.Int64
	return map[string]open{
		"sqlite": openSQLite,
		"postgres": func(t *testing.T, reg *waybill.Registry, timeout time.Duration) database {
			return openPostgres(t, address, fmt.Sprintf("case_%d", schemas.Add(1)), reg, timeout)
		},
	}
}

func openSQLite(t *testing.T, reg *waybill.Registry, timeout time.Duration) database {
	t.Helper()
	store, err := sqlite.New(sqlite.Config{Path: sqlite.Memory, Registry: reg, CallTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := store.Migrator().Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return database{
		store: store, clock: store.SetClockOffset, micros: "%s - %s",
		inTx: func(ctx context.Context, work func(tx any) error) error {
			return store.InTx(ctx, func(tx *sql.Tx) error { return work(tx) })
		},
		fire: func(ctx context.Context, tx any, events []any) error {
			_, err := store.FireAll(ctx, tx.(*sql.Tx), events)
			return err
		},
		exec: func(ctx context.Context, tx any, query string) error {
			_, err := tx.(*sql.Tx).ExecContext(ctx, query)
			return err
		},
		read: func(ctx context.Context, tx any, query string, row func(scan func(...any) error) error) error {
			rows, err := tx.(*sql.Tx).QueryContext(ctx, query)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := row(rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		},
	}
}

// openPostgres opens a store on the schema of the database at url, which it makes if
// need be.
func openPostgres(t *testing.T, url, schema string, reg *waybill.Registry, timeout time.Duration) database {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // no test here crashes the server
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg, Schema: schema, CallTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := postgres.NewMigrator(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	if store.Check(t.Context()) != nil {
		if _, err := pool.Exec(t.Context(), migrator.SQL(), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	return database{
		store: store, clock: store.SetClockOffset, micros: "(extract(epoch FROM %s - %s) * 1000000)::bigint",
		inTx: func(ctx context.Context, work func(tx any) error) error {
			return store.InTx(ctx, func(tx pgx.Tx) error { return work(tx) })
		},
		fire: func(ctx context.Context, tx any, events []any) error {
			_, err := store.FireAll(ctx, tx.(pgx.Tx), events)
			return err
		},
		exec: func(ctx context.Context, tx any, query string) error {
			_, err := tx.(pgx.Tx).Exec(ctx, query)
			return err
		},
		read: func(ctx context.Context, tx any, query string, row func(scan func(...any) error) error) error {
			rows, err := tx.(pgx.Tx).Query(ctx, query)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := row(rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		},
	}
}

// throughProxy returns the URL of the same database behind a proxy.
func throughProxy(t *testing.T, address string) (string, *fault.Proxy) {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, parsed.Host)
	parsed.Host = proxy.Addr()
	return parsed.String(), proxy
}

// table is a queue in the store's database.
type table struct {
	db database

	mu           sync.Mutex
	joint, plain int // batches that it was offered
	// What happens before and after a batch is in the table. An error is the batch's.
	before, after func(ctx context.Context) error
	answered      func() // when Enqueue returns, and all is committed
	refuse        int64  // a delivery of which it wants no message
	down          error  // it takes nothing
	elsewhere     bool   // it is kept in another database, or so it says
}

// change changes how the queue behaves.
func (q *table) change(change func(q *table)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

// offered counts a batch and returns how the queue behaves.
func (q *table) offered(count *int) *table {
	q.mu.Lock()
	defer q.mu.Unlock()
	*count++
	return &table{db: q.db, before: q.before, after: q.after, answered: q.answered, refuse: q.refuse, down: q.down, elsewhere: q.elsewhere}
}

func (q *table) batches() (joint, plain int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.joint, q.plain
}

func (q *table) EnqueueTx(ctx context.Context, tx any, messages []waybill.Message) error {
	now := q.offered(&q.joint)
	if now.elsewhere {
		return fmt.Errorf("table: %w", waybill.ErrOtherDatabase)
	}
	return now.insert(ctx, tx, messages)
}

func (q *table) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	now := q.offered(&q.plain)
	if now.down != nil {
		return waybill.AllResults(len(messages), waybill.EnqueueNotSent, now.down), now.down
	}
	results := accepted(len(messages))
	for i, message := range messages {
		err := q.db.inTx(ctx, func(tx any) error { return now.insert(ctx, tx, []waybill.Message{message}) })
		if err != nil {
			results[i] = waybill.Result{Status: waybill.EnqueueRefused, Err: err}
		}
	}
	if now.answered != nil {
		now.answered()
	}
	return results, nil
}

func (q *table) insert(ctx context.Context, tx any, messages []waybill.Message) error {
	if q.before != nil {
		if err := q.before(ctx); err != nil {
			return err
		}
	}
	if q.down != nil {
		return q.down
	}
	for _, m := range messages {
		if m.DeliveryID == q.refuse {
			return fmt.Errorf("delivery %d is too heavy", m.DeliveryID)
		}
		if err := q.db.exec(ctx, tx, fmt.Sprintf(`INSERT INTO message VALUES (%d, '%s', %d)`, m.DeliveryID, m.Claim.By, m.Claim.At)); err != nil {
			return err
		}
	}
	if q.after != nil {
		return q.after(ctx)
	}
	return nil
}

// shared is a database with a queue in it.
type shared struct {
	*testing.T
	database
	reg   *waybill.Registry
	fault *fault.Store
	queue *table
	log   *logtest.Log
}

const createMessages = `CREATE TABLE message (id bigint NOT NULL, claimed_by text NOT NULL, claimed_at bigint NOT NULL)`

func newShared(t *testing.T, db database) *shared {
	t.Helper()
	b := &shared{T: t, database: db, reg: db.store.Registry(), fault: fault.NewStore(db.store), queue: &table{db: db}}
	b.do(createMessages)
	return b
}

// relay returns a relay on the store and its queue that logs to b.log.
func (b *shared) relay(config relay.Config) *relay.Relay {
	b.Helper()
	if config.Store == nil {
		config.Store = b.fault
	}
	if config.Backend == nil {
		config.Backend = b.queue
	}
	if b.log == nil {
		config.Logger, b.log = logtest.New()
	}
	return newRelay(b.T, config)
}

// tx runs work in a transaction of the test's, which has no time of its own.
func (b *shared) tx(work func(tx any) error) {
	b.Helper()
	if err := b.inTx(context.Background(), work); err != nil {
		b.Fatal(err)
	}
}

func (b *shared) do(query string) {
	b.Helper()
	b.tx(func(tx any) error { return b.exec(context.Background(), tx, query) })
}

// fire fires n events, one to each receiver, as of an hour ago.
func (b *shared) fire(n int) {
	b.Helper()
	b.clock(-time.Hour)
	defer b.clock(0)
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "parcel.sent", Payload: []byte(message(i))}
	}
	b.tx(func(tx any) error { return b.database.fire(context.Background(), tx, events) })
}

// numbers returns the whole numbers that a query yields.
func (b *shared) numbers(query string) (all []int64) {
	b.Helper()
	b.tx(func(tx any) error {
		all = nil
		return b.read(context.Background(), tx, query, func(scan func(...any) error) error {
			var n int64
			all = append(all, 0)
			err := scan(&n)
			all[len(all)-1] = n
			return err
		})
	})
	return all
}

// ids returns the ids of deliveries that are so.
func (b *shared) ids(where string) []int64 {
	b.Helper()
	return b.numbers("SELECT id FROM delivery WHERE " + where + " ORDER BY id")
}

func (b *shared) rows() map[int64]waybill.RowState {
	b.Helper()
	states, err := b.store.Look(context.Background(), b.ids("true"))
	if err != nil {
		b.Fatal(err)
	}
	rows := map[int64]waybill.RowState{}
	for _, state := range states {
		rows[state.ID] = state
	}
	return rows
}

func (b *shared) messages() (all []waybill.Message) {
	b.Helper()
	b.tx(func(tx any) error {
		all = nil
		return b.read(context.Background(), tx, "SELECT id, claimed_by, claimed_at FROM message ORDER BY id", func(scan func(...any) error) error {
			var m waybill.Message
			err := scan(&m.DeliveryID, &m.Claim.By, &m.Claim.At)
			all = append(all, m)
			return err
		})
	})
	return all
}

// out returns what is out under claims of the relay: rows with their messages, rows
// without, and messages without their rows.
func (b *shared) out(r *relay.Relay) (whole, bare, loose []int64) {
	b.Helper()
	rows, messages := b.rows(), b.messages()
	for id, row := range rows {
		if row.Status != waybill.Claimed || row.Claim.By != r.ID() || row.HandedOffAt == 0 {
			continue
		}
		if slices.Contains(messages, waybill.Message{DeliveryID: id, Claim: row.Claim}) {
			whole = append(whole, id)
		} else {
			bare = append(bare, id)
		}
	}
	for _, m := range messages {
		if m.Claim.By == r.ID() && rows[m.DeliveryID].Claim != m.Claim {
			loose = append(loose, m.DeliveryID)
		}
	}
	slices.Sort(whole)
	slices.Sort(bare)
	return whole, bare, loose
}

// wantOut fails the test unless just these rows are out, each with its message.
func (b *shared) wantOut(r *relay.Relay, want []int64) {
	b.Helper()
	whole, bare, loose := b.out(r)
	if len(bare)+len(loose) > 0 {
		b.Errorf("rows %v are claimed without a message, and messages %v are there without their claim", bare, loose)
	}
	wantIDs(b.T, "out", whole, want)
}

func (b *shared) wantBatches(joint, plain int) {
	b.Helper()
	if j, p := b.queue.batches(); j != joint || p != plain {
		b.Errorf("%d batches were enqueued jointly and %d by themselves, want %d and %d", j, p, joint, plain)
	}
}

// apart hides that a queue can take part in a transaction.
type apart struct{ waybill.TaskBackend }
