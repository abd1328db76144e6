package protocoltest

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/sqlite"
)

// txStore is a store with both of its transactions: a receiver's, and a claim's.
type txStore interface {
	waybill.TxStore
	waybill.TxClaimer
}

// database is a store and what the test needs beside it: ways to fire, to write in
// a receiver's transaction, to move the clock and to read whole rows.
type database struct {
	store    txStore
	setClock func(offset time.Duration)
	inTx     func(ctx context.Context, work func(tx any) error) error
	fire     func(ctx context.Context, tx, event any) (int64, error)
	cancel   func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error)
	reopen   func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error)
	effect   func(ctx context.Context, tx any, delivery int64) error          // writes to the receiver's own table
	post     func(ctx context.Context, tx any, message waybill.Message) error // writes to the queue in the database
	look     func(ctx context.Context) ([]row, waybill.Stamp, error)          // rows by id, and then the time without the offset
	reset    func(ctx context.Context) error
	posted   func(ctx context.Context) ([]waybill.Message, error) // empties the queue in the database

	// concurrent: others can write while a transactional receiver runs.
	concurrent bool
	// hasty is the store for calls whose context may end in the middle; ready
	// comes before each, and quiet, after one that ended so, waits until nothing
	// goes on whose caller has left.
	hasty        txStore
	ready, quiet func(ctx context.Context) error
	// hurry returns a context that ends soon.
	hurry func(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc)
	// atOnce runs two calls at the same time.
	atOnce func(first, second func())

	// renewsForEver: relays do what they must not; see renewWaiting.
	renewsForEver bool
}

// row is a whole delivery row, and how often the transactional receiver's own table
// has it. A stamp that is NULL is never.
type row struct {
	id, event              int64
	receiver, target       string
	digest                 [32]byte
	status                 waybill.Status
	attempts, starts, most int
	available, due         waybill.Stamp
	claim                  waybill.Claim
	expires                waybill.Stamp // the lease
	handedOff, taken       waybill.Stamp
	lastError              string
	settled                waybill.Stamp
	effects                int
}

const never = waybill.Stamp(-1)

// columns of a row; micros(x) is replaced by x in microseconds, or by never.
const selectRows = `
SELECT id, event_id, receiver, target, target_digest, status, attempts, starts, max_attempts, micros(available_at),
       micros(due_at), claimed_by, micros(claimed_at), micros(lease_expires_at), micros(handed_off_at), micros(taken_at),
       last_error, micros(settled_at), (SELECT count(*) FROM effect WHERE delivery_id = delivery.id)
  FROM delivery ORDER BY id`

// createTables makes the transactional receiver's table, and a queue in the store's
// database. They have no key: they must be able to hold a row twice.
const createTables = `
CREATE TABLE effect (delivery_id bigint NOT NULL);
CREATE TABLE posted (delivery_id bigint NOT NULL, claimed_by text NOT NULL, claimed_at bigint NOT NULL)`

func insertEffect(delivery int64) string {
	return fmt.Sprintf(`INSERT INTO effect VALUES (%d)`, delivery)
}

func insertPosted(message waybill.Message) string {
	return fmt.Sprintf(`INSERT INTO posted VALUES (%d, '%s', %d)`, message.DeliveryID, message.Claim.By, message.Claim.At)
}

const (
	deletePosted = `DELETE FROM posted RETURNING delivery_id, claimed_by, claimed_at`
	deleteAll    = `DELETE FROM event; DELETE FROM lane_pause; DELETE FROM effect; DELETE FROM posted`
)

func postedMessage(scan func(...any) error) (m waybill.Message, err error) {
	err = scan(&m.DeliveryID, &m.Claim.By, &m.Claim.At)
	return m, err
}

func readRow(scan func(...any) error) (r row, err error) {
	var digest []byte
	err = scan(&r.id, &r.event, &r.receiver, &r.target, &digest, &r.status, &r.attempts, &r.starts, &r.most, &r.available,
		&r.due, &r.claim.By, &r.claim.At, &r.expires, &r.handedOff, &r.taken, &r.lastError, &r.settled, &r.effects)
	if err == nil && copy(r.digest[:], digest) != len(r.digest) {
		err = fmt.Errorf("delivery %d: digest of %d bytes", r.id, len(digest))
	}
	return r, err
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSQLite(t *testing.T, path string) *database {
	t.Helper()
	reg := declare(t, func(reg *waybill.Registry, key string, opts waybill.Options) {
		sqlite.OnTx(reg, key, func(ctx context.Context, tx *sql.Tx, _ parcel) error { return behave(ctx, tx) }, opts)
	})
	ctx := t.Context()
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: reg})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	_, err = store.Migrator().Up(ctx)
	must(t, err)
	inTx := func(ctx context.Context, work func(tx any) error) error {
		return store.InTx(ctx, func(tx *sql.Tx) error { return work(tx) })
	}
	exec := func(ctx context.Context, tx any, query string) error {
		_, err := tx.(*sql.Tx).ExecContext(ctx, query)
		return err
	}
	must(t, inTx(ctx, func(tx any) error { return exec(ctx, tx, createTables) }))
	// An in-memory database is seen by its store alone: it is read through that.
	look := func(ctx context.Context) (rows []row, now waybill.Stamp, err error) {
		err = store.InTx(ctx, func(tx *sql.Tx) error {
			rows, err = readSQL(ctx, tx, micros(selectRows, `COALESCE(${1}, -1)`), readRow)
			return err
		})
		return rows, waybill.StampOf(time.Now()), err
	}
	return &database{
		store: store, setClock: store.SetClockOffset, inTx: inTx, look: look,
		hurry: context.WithTimeout, atOnce: atOnce,
		cancel: func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error) {
			return store.Cancel(ctx, tx.(*sql.Tx), request)
		},
		reopen: func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error) {
			return store.Reopen(ctx, tx.(*sql.Tx), request)
		},
		effect: func(ctx context.Context, tx any, delivery int64) error { return exec(ctx, tx, insertEffect(delivery)) },
		post: func(ctx context.Context, tx any, message waybill.Message) error {
			return exec(ctx, tx, insertPosted(message))
		},
		fire: func(ctx context.Context, tx, event any) (int64, error) { return store.Fire(ctx, tx.(*sql.Tx), event) },
		reset: func(ctx context.Context) error {
			return inTx(ctx, func(tx any) error { return exec(ctx, tx, deleteAll) })
		},
		posted: func(ctx context.Context) (messages []waybill.Message, err error) {
			err = store.InTx(ctx, func(tx *sql.Tx) error {
				messages, err = readSQL(ctx, tx, deletePosted, postedMessage)
				return err
			})
			return messages, err
		},
		hasty: store, ready: nothing, quiet: nothing, // a statement ends before its caller goes on
	}
}

func nothing(context.Context) error { return nil }

func readSQL[T any](ctx context.Context, tx *sql.Tx, query string, read func(scan func(...any) error) (T, error)) (all []T, err error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func openPostgres(t *testing.T) *database {
	t.Helper()
	ctx := t.Context()
	url := services.Postgres(t)
	pool, hastyPool := openPool(t, url, "waybill", 4), openPool(t, url, "waybill hasty", 1)
	reg := declare(t, func(reg *waybill.Registry, key string, opts waybill.Options) {
		postgres.OnTx(reg, key, func(ctx context.Context, tx pgx.Tx, _ parcel) error { return behave(ctx, tx) }, opts)
	})
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg})
	must(t, err)
	hasty, err := postgres.New(postgres.Config{Pool: hastyPool, Registry: reg})
	must(t, err)
	migrator, err := postgres.NewMigrator(pool, postgres.DefaultSchema)
	must(t, err)
	_, err = pool.Exec(ctx, migrator.SQL(), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	_, err = pool.Exec(ctx, createTables, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	exec := func(ctx context.Context, tx any, query string) error {
		_, err := tx.(pgx.Tx).Exec(ctx, query)
		return err
	}
	return &database{
		store: store, hasty: hasty, concurrent: true,
		setClock: func(offset time.Duration) {
			store.SetClockOffset(offset)
			hasty.SetClockOffset(offset)
		},
		inTx: func(ctx context.Context, work func(tx any) error) error {
			return store.InTx(ctx, func(tx pgx.Tx) error { return work(tx) })
		},
		fire: func(ctx context.Context, tx, event any) (int64, error) { return store.Fire(ctx, tx.(pgx.Tx), event) },
		cancel: func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error) {
			return store.Cancel(ctx, tx.(pgx.Tx), request)
		},
		reopen: func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error) {
			return store.Reopen(ctx, tx.(pgx.Tx), request)
		},
		effect: func(ctx context.Context, tx any, delivery int64) error { return exec(ctx, tx, insertEffect(delivery)) },
		post: func(ctx context.Context, tx any, message waybill.Message) error {
			return exec(ctx, tx, insertPosted(message))
		},
		hurry: context.WithTimeout, atOnce: atOnce,
		look: func(ctx context.Context) (rows []row, now waybill.Stamp, err error) {
			const form = `COALESCE((extract(epoch FROM ${1}) * 1000000)::bigint, -1)`
			batch := &pgx.Batch{}
			batch.Queue(micros(selectRows, form)).Query(func(result pgx.Rows) error {
				rows, err = pgx.CollectRows(result, func(r pgx.CollectableRow) (row, error) { return readRow(r.Scan) })
				return err
			})
			batch.Queue(micros(`SELECT micros(clock_timestamp())`, form)).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
			err = pool.SendBatch(ctx, batch).Close()
			return rows, now, err
		},
		reset: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, deleteAll, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		posted: func(ctx context.Context) ([]waybill.Message, error) {
			rows, err := pool.Query(ctx, deletePosted)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(r pgx.CollectableRow) (waybill.Message, error) { return postedMessage(r.Scan) })
		},
		ready: hastyPool.Ping,
		quiet: func(ctx context.Context) error {
			hastyPool.Reset()
			return waitForBackends(ctx, pool, "waybill hasty")
		},
	}
}

func openPool(t *testing.T, url, name string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns = conns
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // no test here crashes the server
	config.ConnConfig.RuntimeParams["search_path"] = "public, " + postgres.DefaultSchema
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// waitForBackends waits until the server has no connection of that name. A client
// whose context ended closes its connection at once, and what it had sent is done
// all the same, whenever the server comes to it.
func waitForBackends(ctx context.Context, pool *pgxpool.Pool, name string) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		var n int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, name).Scan(&n)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server still has %d connections of %s", n, name)
		}
		time.Sleep(time.Millisecond)
	}
}

// microsOf finds micros(column) in a query.
var microsOf = regexp.MustCompile(`micros\((\w+(\(\))?)\)`)

// micros writes it out.
func micros(query, form string) string { return microsOf.ReplaceAllString(query, form) }
