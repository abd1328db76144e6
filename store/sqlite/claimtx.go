package sqlite

import (
	"context"
	"database/sql"

	"github.com/waybill-go/waybill"
)

// ClaimTx calls work in a transaction, which is a *sql.Tx, and commits it. Work's
// error rolls all of it back and is returned as it is; so does its panic, which
// passes through. Work is called once: whoever has the write lock meets nobody.
//
// The whole call, work and the wait for the write lock included, takes no longer than
// Config.CallTimeout; the context that work is given ends then, and the transaction
// with it. Work holds the write lock: see the package comment.
func (s *Store) ClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims waybill.Claimer) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	return s.locked(ctx, ctx, func(tx *sql.Tx) error {
		var failed error // of a step, which may be half done: never to be committed
		claims := claimer{func(ctx context.Context, step step) error {
			err := step(ctx, tx, s.now())
			if err != nil {
				failed = err
			}
			return err
		}}
		if err := work(ctx, tx, claims); err != nil {
			return err
		}
		return failed
	})
}

// claimer performs the steps before the hand-off by way of write.
type claimer struct{ write write }

// alone commits each step by itself.
func (s *Store) alone() claimer { return claimer{s.write} }
