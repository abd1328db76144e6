package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// sqlTxKind is what OnSQLTx declares, and what a store over a *sql.DB hands out.
const sqlTxKind = "*sql.Tx"

// OpenDB is Open for the application that has a *sql.DB, of whatever driver. Its
// transactions are *sql.Tx: see InSQLTx, FireSQL and OnSQLTx. A call is a transaction
// of several round trips, where a pgx pool needs one.
//
// Relays hear wake-ups over pgx's driver (github.com/jackc/pgx/v5/stdlib), for which
// they connect with the settings of one of the pool's connections. Over another driver
// they poll; what is fired over it wakes all who can hear.
func OpenDB(ctx context.Context, db *sql.DB, reg *waybill.Registry) (*Store, error) {
	return open(ctx, Config{DB: db, Registry: reg})
}

// sqlDB is the database of a *sql.DB.
type sqlDB struct{ *sql.DB }

func (d sqlDB) txKind() string { return sqlTxKind }

func (d sqlDB) connections() int {
	if most := d.Stats().MaxOpenConnections; most > 0 {
		return most
	}
	return math.MaxInt
}

// send runs the statements one by one. Also a single one is in a transaction: behind a
// pooler the two steps of a statement with parameters could meet two servers.
func (d sqlDB) send(ctx context.Context, batch *pgx.Batch) error {
	tx, err := d.begin(ctx)
	if err != nil {
		return err
	}
	return sendAll(ctx, tx, batch)
}

// sendAll runs a batch in a transaction and commits it, or rolls it back.
func sendAll(ctx context.Context, tx transaction, batch *pgx.Batch) error {
	err := tx.send(ctx, batch)
	if err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		_ = tx.rollback(ending) // it fails where the connection did
	}
	return err
}

// begin begins a transaction that outlives ctx: database/sql rolls one back when the
// context ends that it was begun with.
func (d sqlDB) begin(ctx context.Context) (transaction, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stay := context.AfterFunc(ctx, end)
	tx, err := bounded(ctx, func() (*sql.Tx, error) { return d.BeginTx(life, nil) })
	if err == nil && !stay() {
		err = context.Cause(ctx)
	}
	if err != nil {
		end() // rolls back what is begun after all
		return nil, err
	}
	return &sqlTx{tx: tx, end: end}, nil
}

// sqlTx is a transaction of database/sql.
type sqlTx struct {
	tx  *sql.Tx
	end context.CancelFunc
}

func (t *sqlTx) handle() any { return t.tx }

func (t *sqlTx) send(ctx context.Context, batch *pgx.Batch) error { return sendSQL(ctx, t.tx, batch) }

func (t *sqlTx) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // and the rollback is to come
	}
	defer t.end()
	return boundedErr(ctx, t.tx.Commit)
}

func (t *sqlTx) rollback(ctx context.Context) error {
	defer t.end()
	return boundedErr(ctx, t.tx.Rollback)
}

// borrow gives work a connection of pgx's driver.
func (d sqlDB) borrow(ctx context.Context, work func(*pgx.Conn) error) error {
	return boundedErr(ctx, func() error {
		conn, err := d.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Raw(func(driver any) error {
			if of, ok := driver.(interface{ Conn() *pgx.Conn }); ok {
				return work(of.Conn())
			}
			return fmt.Errorf("%w, but %T", errNotPgx, d.Driver())
		})
	})
}

func (d sqlDB) connect(ctx context.Context) (*pgx.Conn, error) {
	var config *pgx.ConnConfig
	err := d.borrow(ctx, func(conn *pgx.Conn) error {
		config = conn.Config()
		return nil
	})
	if err != nil {
		return nil, err
	}
	config.OnNotification = nil // it would tell the connection that was borrowed
	return pgx.ConnectConfig(ctx, config)
}

// grace is what a driver has to return after the end of a context.
const grace = 500 * time.Millisecond

// bounded returns when call does, and soon after ctx ends at the latest. Not every
// driver gives up then: one asks the server to cancel, and waits for its answer, of a
// server that is gone for hours. What call returns later is dropped, and its connection
// is its own until then.
func bounded[T any](ctx context.Context, call func() (T, error)) (value T, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-late.C:
		return value, fmt.Errorf("the driver waits on: %w", context.Cause(ctx))
	}
}

func boundedErr(ctx context.Context, call func() error) error {
	_, err := bounded(ctx, func() (struct{}, error) { return struct{}{}, call() })
	return err
}
