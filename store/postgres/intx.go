package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// InTx runs f in a transaction, commits it and then wakes the relays of the lanes
// that were fired to, or reopened in, in it, if any: the way to change something and fire for it in
// one piece. f's error rolls all of it back and is returned as it is. A wake that
// fails costs a relay's poll, and never what was committed.
//
// A store over a *sql.DB has InSQLTx instead; this returns an error there, having done
// nothing.
func (s *Store) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	if s.db.txKind() != txKind {
		return errors.New("postgres: InTx hands out a pgx.Tx, and the transactions of this store are *sql.Tx: call InSQLTx")
	}
	return s.inTx(ctx, func(tx any) error { return f(tx.(pgx.Tx)) })
}

// InSQLTx is InTx for a store over a *sql.DB; see FireSQL.
func (s *Store) InSQLTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	if s.db.txKind() != sqlTxKind {
		return errors.New("postgres: InSQLTx hands out a *sql.Tx, and the transactions of this store are pgx.Tx: call InTx")
	}
	return s.inTx(ctx, func(tx any) error { return f(tx.(*sql.Tx)) })
}

// FireAlone fires events in a transaction of their own, wakes the relays, and returns
// the ids in order: for what goes with no change of the application's, and for tests.
func (s *Store) FireAlone(ctx context.Context, events ...any) (ids []int64, err error) {
	err = s.inTx(ctx, func(tx any) error {
		if db, ok := tx.(SQLTx); ok {
			ids, err = s.FireAllSQL(ctx, db, events)
		} else {
			ids, err = s.FireAll(ctx, tx.(DB), events)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

func (s *Store) inTx(ctx context.Context, f func(tx any) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.rollBack(ctx, tx)
	fired, err := s.firingIn(tx, func() error { return f(tx.handle()) })
	if err != nil {
		return err
	}
	if err := s.within(ctx, tx.commit); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.tell(ctx, fired)
	return nil
}

// firingIn returns what is fired in a transaction while work runs. What is fired in one
// within the caller's is the caller's to tell of.
func (s *Store) firingIn(tx transaction, work func() error) (fired waybill.Committed, err error) {
	if s.bound {
		return waybill.Committed{}, work()
	}
	return inProgress.during(s.schema, tx.handle(), work)
}

// within runs f within the time of a call.
func (s *Store) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return f(ctx)
}

func (s *Store) begin(ctx context.Context) (tx transaction, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		tx, err = s.db.begin(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return tx, nil
}

// rollBack ends a transaction that was not committed, whatever became of ctx, so
// that its connection returns to the pool.
func (s *Store) rollBack(ctx context.Context, tx transaction) {
	err := s.within(context.WithoutCancel(ctx), tx.rollback)
	if err != nil && !isTxDone(err) {
		s.logger.DebugContext(ctx, "rollback failed; the connection is closed instead", "error", err)
	}
}
