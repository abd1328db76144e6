package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
)

// TxKind is the type of transaction that transactional receivers are given.
const TxKind = "*sql.Tx"

// TxKind returns the type of transaction that RunTx hands out.
func (s *Store) TxKind() string { return TxKind }

// OnTx registers a transactional receiver of the event that T is declared as:
// what it writes in tx and its acknowledgement are committed together, or not at
// all. It holds the write lock while it runs: see the package comment.
func OnTx[T any](reg *waybill.Registry, key string, run func(ctx context.Context, tx *sql.Tx, event T) error, opts waybill.Options) {
	waybill.OnTx(reg, key, TxKind, func(ctx context.Context, tx any, event T) error {
		own, ok := tx.(*sql.Tx)
		if !ok {
			return fmt.Errorf("receiver %q wants a %s, the store gave a %T", key, TxKind, tx)
		}
		return run(ctx, own, event)
	}, opts)
}

// errNotLanded rolls back a run whose claim was lost.
var errNotLanded = errors.New("the claim was lost")

// RunTx calls run and records the ack in one transaction. What was fired in it wakes
// its lanes, as after InTx.
//
// The end of ctx ends the wait for the write lock, and reaches run; it does not
// undo a run that returned nil all the same: the claim alone decides.
func (s *Store) RunTx(ctx context.Context, ack waybill.Ack, run func(ctx context.Context, tx any) error) (landed bool, err error) {
	wait, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	life := context.WithoutCancel(ctx)
	var fired waybill.Committed
	err = s.locked(wait, life, func(tx *sql.Tx) (err error) {
		if _, err := tx.ExecContext(life, "SAVEPOINT waybill_run"); err != nil {
			return fmt.Errorf("begin a savepoint: %w", err)
		}
		if fired, err = s.signals.during(func() error { return run(ctx, tx) }); err != nil {
			return err
		}
		finish, cancel := context.WithTimeout(life, s.callTimeout)
		defer cancel()
		// A full disk, or an INSERT OR ROLLBACK, ends the transaction. What follows would
		// be committed by itself: the outcome, and nothing of what the run has written.
		if _, err := tx.ExecContext(finish, "RELEASE waybill_run"); err != nil {
			return fmt.Errorf("the transaction of the run is over before its end: %w", err)
		}
		return change(finish, tx, ackSQL, func(execute func(args ...any) (bool, error)) error {
			ok, err := execute(append([]any{s.now(), ack.DeliveryID, ack.Claim.By, ack.Claim.At}, outcomeArgs(ack)...)...)
			if err != nil {
				return fmt.Errorf("acknowledge delivery %d: %w", ack.DeliveryID, err)
			}
			if !ok {
				return errNotLanded
			}
			return nil
		})
	})
	if errors.Is(err, errNotLanded) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.tell(ctx, fired)
	return true, nil
}
