package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// database is what the statements of a Store go to: a pool of pgx, a *sql.DB, or one
// transaction of either (see Within). Every statement is written once, for pgx's
// batches; what is no pgx runs them one by one.
type database interface {
	// txKind names the type of what transactions hand out.
	txKind() string
	// connections returns how many calls there can be at the same time.
	connections() int
	// send runs a batch as one transaction.
	send(ctx context.Context, batch *pgx.Batch) error
	begin(ctx context.Context) (transaction, error)
	// borrow gives work a connection of the driver, and connect makes one like it
	// outside of the pool. Both return errNotPgx where the driver is another one.
	borrow(ctx context.Context, work func(*pgx.Conn) error) error
	connect(ctx context.Context) (*pgx.Conn, error)
}

// transaction is one that is open.
type transaction interface {
	// handle is what the application knows it as: a pgx.Tx or a *sql.Tx.
	handle() any
	send(ctx context.Context, batch *pgx.Batch) error
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

// errNotPgx says that the connections are not pgx's.
var errNotPgx = errors.New("the driver of the *sql.DB is not pgx's")

// pool is the database of a pgxpool.Pool.
type pool struct{ *pgxpool.Pool }

func (p pool) txKind() string   { return txKind }
func (p pool) connections() int { return int(p.Config().MaxConns) }

// send takes one round trip.
func (p pool) send(ctx context.Context, batch *pgx.Batch) error {
	return p.SendBatch(ctx, batch).Close()
}

func (p pool) begin(ctx context.Context) (transaction, error) {
	tx, err := p.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return poolTx{tx}, nil
}

func (p pool) borrow(ctx context.Context, work func(*pgx.Conn) error) error {
	return p.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return work(conn.Conn()) })
}

func (p pool) connect(ctx context.Context) (*pgx.Conn, error) {
	config := p.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// poolTx is a transaction, or a savepoint, of pgx.
type poolTx struct{ tx pgx.Tx }

func (t poolTx) handle() any { return t.tx }

func (t poolTx) send(ctx context.Context, batch *pgx.Batch) error {
	return t.tx.SendBatch(ctx, batch).Close()
}

func (t poolTx) commit(ctx context.Context) error   { return t.tx.Commit(ctx) }
func (t poolTx) rollback(ctx context.Context) error { return t.tx.Rollback(ctx) }

// isTxDone reports whether a rollback found nothing to roll back.
func isTxDone(err error) bool {
	return errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone)
}

// sqlState returns the code of an error that the server answered with, whatever the
// driver, and "" for every other.
func sqlState(err error) string {
	var answer interface {
		error
		SQLState() string
	}
	if errors.As(err, &answer) {
		return answer.SQLState()
	}
	return ""
}
