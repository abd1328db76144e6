package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// Within returns a store that is bound to a transaction, a pgx.Tx or a *sql.Tx, which
// stays the caller's to end. It is for tests: what one fires in a transaction can be
// claimed, taken, run and acknowledged in it, and is gone when it is rolled back.
//
// Each step is a savepoint, so that one that fails leaves the transaction as it was, and
// what RunTx, ClaimTx, InTx and InSQLTx hand out is that savepoint. One goes on at a
// time: a step that is asked for while a receiver runs waits for it, and so does the
// caller who asks for one within such a run, until the time of a call is over. The
// caller must not use the transaction meanwhile.
//
// Nobody is woken, and nobody listens. Time stands still within a transaction: no
// lease lapses and no backoff ends until SetClockOffset moves the clock, which is one
// for both stores.
func (s *Store) Within(tx any) (*Store, error) {
	var within savepoints
	switch tx := tx.(type) {
	case pgx.Tx:
		within = pgxSavepoints{tx}
	case *sql.Tx:
		if tx != nil {
			within = &sqlSavepoints{tx: tx}
		}
	}
	if within == nil {
		return nil, fmt.Errorf("postgres: a store works within a pgx.Tx or a *sql.Tx, and not within a %T", tx)
	}
	bound := *s
	bound.db = &boundDB{savepoints: within, turn: make(chan struct{}, 1)}
	bound.bound, bound.pollOnly = true, true
	bound.plain, bound.among = "", "" // they would last as long as the caller's transaction
	return &bound, nil
}

// savepoints are those of one transaction.
type savepoints interface {
	txKind() string
	begin(ctx context.Context) (transaction, error)
}

// boundDB is the database of a store that is bound to a transaction.
type boundDB struct {
	savepoints
	turn chan struct{} // has room for the one that goes on
}

// connections: a step waits for a receiver that runs, which waits for none.
func (b *boundDB) connections() int { return math.MaxInt }

func (b *boundDB) send(ctx context.Context, batch *pgx.Batch) error {
	tx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	return sendAll(ctx, tx, batch)
}

func (b *boundDB) begin(ctx context.Context) (transaction, error) {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another step in the same transaction: %w", context.Cause(ctx))
	}
	leave := sync.OnceFunc(func() { <-b.turn })
	tx, err := b.savepoints.begin(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	return boundTx{tx, leave}, nil
}

func (b *boundDB) borrow(context.Context, func(*pgx.Conn) error) error { return errBound }
func (b *boundDB) connect(context.Context) (*pgx.Conn, error)          { return nil, errBound }

// errBound says that a transaction has no other connection than its own.
var errBound = fmt.Errorf("%w: the store is bound to a transaction", waybill.ErrDeaf)

// boundTx lets the next one go on when it has ended.
type boundTx struct {
	transaction
	leave func()
}

func (t boundTx) commit(ctx context.Context) error {
	err := t.transaction.commit(ctx)
	if err == nil {
		t.leave()
	}
	return err // the rollback is to come
}

func (t boundTx) rollback(ctx context.Context) error {
	defer t.leave()
	return t.transaction.rollback(ctx)
}

type pgxSavepoints struct{ tx pgx.Tx }

func (p pgxSavepoints) txKind() string { return txKind }

func (p pgxSavepoints) begin(ctx context.Context) (transaction, error) {
	tx, err := p.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return poolTx{tx}, nil
}

type sqlSavepoints struct {
	tx *sql.Tx
	n  int // how many there were
}

func (s *sqlSavepoints) txKind() string { return sqlTxKind }

func (s *sqlSavepoints) begin(ctx context.Context) (transaction, error) {
	s.n++
	point := &sqlSavepoint{tx: s.tx, name: fmt.Sprintf("waybill_%d", s.n)}
	return point, point.exec(ctx, "SAVEPOINT "+point.name)
}

// sqlSavepoint is a transaction within one of database/sql, which has none of its own.
type sqlSavepoint struct {
	tx    *sql.Tx
	name  string
	ended bool
}

func (p *sqlSavepoint) handle() any { return p.tx }

func (p *sqlSavepoint) send(ctx context.Context, batch *pgx.Batch) error {
	return sendSQL(ctx, p.tx, batch)
}

func (p *sqlSavepoint) commit(ctx context.Context) error {
	err := p.exec(ctx, "RELEASE SAVEPOINT "+p.name)
	p.ended = err == nil
	return err
}

func (p *sqlSavepoint) rollback(ctx context.Context) error {
	if p.ended {
		return sql.ErrTxDone
	}
	p.ended = true
	return p.exec(ctx, "ROLLBACK TO SAVEPOINT "+p.name+"; RELEASE SAVEPOINT "+p.name)
}

func (p *sqlSavepoint) exec(ctx context.Context, text string) error {
	return boundedErr(ctx, func() error {
		_, err := p.tx.ExecContext(ctx, text)
		return err
	})
}
