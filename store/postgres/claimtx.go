package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// ClaimTx calls work in a transaction, which is a pgx.Tx or, of a store over a *sql.DB,
// a *sql.Tx, and commits it. Work's
// error rolls all of it back and is returned as it is; so does its panic, which
// passes through. A transaction that the database undid because of another one is
// tried again from its start, and work is called again. An error of the commit
// leaves open whether it did: then all of it is there, or nothing.
//
// The whole call, work included, takes no longer than one of the Store's calls; the
// context that work is given ends then. What is claimed carries the time of the
// transaction's begin, and its rows are locked until the end: work should do nothing
// slow, and needs no connection but its transaction's. The settings that the claims
// make for their plans hold for the rest of the transaction, and for no longer.
func (s *Store) ClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims waybill.Claimer) error) error {
	return s.within(ctx, func(ctx context.Context) error {
		for try := 1; ; try++ {
			err := s.tryClaimTx(ctx, work)
			if err == nil || try == maxTries || !isConflict(err) {
				return err
			}
		}
	})
}

func (s *Store) tryClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims waybill.Claimer) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.rollBack(ctx, tx)
	if err := work(ctx, tx.handle(), s.in(tx)); err != nil {
		return err
	}
	err = ctx.Err() // ended, it would cost the connection, and leave the end to the server
	if err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// claimer performs the steps before the hand-off by way of send.
type claimer struct {
	sql  func(text string) string
	send func(ctx context.Context, build func(*pgx.Batch)) error
}

// alone commits each step by itself.
func (s *Store) alone() claimer { return claimer{sql: s.sql, send: s.send} }

// in leaves the steps to the commit of a transaction.
func (s *Store) in(tx transaction) claimer {
	return claimer{sql: s.sql, send: func(ctx context.Context, build func(*pgx.Batch)) error {
		return s.sendIn(ctx, tx, build)
	}}
}
