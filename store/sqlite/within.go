package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Within returns the same store bound to a *sql.Tx of its file: whatever it does
// happens in that transaction, and goes with it when it is rolled back. It is for
// tests, which so deliver what they fired and leave nothing behind. Each step is a
// savepoint: one that fails is undone by itself. Nobody is woken, and Listen is deaf.
// Where SQLite itself rolls all of the transaction back (a full disk, INSERT OR
// ROLLBACK) every later step fails: it would be committed by itself.
//
// The transaction is the caller's, who neither uses nor ends it while a step runs.
func (s *Store) Within(tx any) (*Store, error) {
	own, ok := tx.(*sql.Tx)
	if !ok || own == nil {
		return nil, fmt.Errorf("a store on SQLite works within a *sql.Tx, not a %T", tx)
	}
	return &Store{
		path: s.path, registry: s.registry, callTimeout: s.callTimeout, clockOffset: s.clockOffset, logger: s.logger,
		turn: make(chan struct{}, 1), writer: s.writer, reader: s.reader, bound: own,
		steps: s.steps, files: s.files,
	}, nil
}

// saved runs work in a savepoint of the bound transaction.
func (s *Store) saved(ctx context.Context, work func(tx *sql.Tx) error) (err error) {
	run := func(statement string) error {
		_, err := s.bound.ExecContext(context.WithoutCancel(ctx), statement)
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.ended != nil {
		return s.ended
	}
	if err := run("SAVEPOINT waybill_step"); err != nil {
		return fmt.Errorf("begin a savepoint: %w", err)
	}
	kept := false
	defer func() { // also when work panics
		if kept {
			return
		}
		undone := run("ROLLBACK TO waybill_step")
		if undone != nil {
			s.ended = fmt.Errorf("the transaction that the store is bound to is over: %w", undone)
			err = errors.Join(err, s.ended)
			return
		}
		err = errors.Join(err, run("RELEASE waybill_step"))
	}()
	if err := work(s.bound); err != nil {
		return err
	}
	if err := run("RELEASE waybill_step"); err != nil {
		return fmt.Errorf("release a savepoint: %w", err)
	}
	kept = true
	return nil
}

// queries is what rows are read from: a pool, or a transaction.
type queries interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *Store) read() queries {
	if s.bound != nil {
		return s.bound
	}
	return s.reader
}

// readByID returns what one row after another is read from, and what to call then.
func (s *Store) readByID(ctx context.Context) (from preparer, done func() error, err error) {
	if s.bound != nil {
		return s.bound, func() error { return nil }, nil
	}
	conn, err := s.reader.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	return conn, conn.Close, nil
}
