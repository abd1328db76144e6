package river

import (
	"context"
	"fmt"

	queue "github.com/riverqueue/river"

	"github.com/waybill-go/waybill"
)

// EnqueueTx inserts the messages as jobs in tx, a pgx.Tx or, on SQLite, a *sql.Tx.
// Workers see them, and are told of them, when it commits.
//
// The transaction counts as one of the queue's database when it has the pool's
// host, port and database name, or on SQLite the same file.
func (b *Backend) EnqueueTx(ctx context.Context, tx any, messages []waybill.Message) error {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	shared, err := b.database.shares(ctx, tx)
	if err != nil {
		return fmt.Errorf("enqueue on %s: %w", b.queue, err)
	}
	if !shared {
		return fmt.Errorf("enqueue on %s, in %s: %w", b.queue, b.database.where(), waybill.ErrOtherDatabase)
	}
	if len(messages) == 0 {
		return nil
	}
	jobs := make([]queue.InsertManyParams, len(messages))
	for i, message := range messages {
		if jobs[i], err = b.job(message); err != nil {
			return fmt.Errorf("enqueue on %s: %w", b.queue, err)
		}
	}
	if err := b.database.insertTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("enqueue on %s: %w", b.queue, err)
	}
	return nil
}
