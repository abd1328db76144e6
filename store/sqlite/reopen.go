package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
)

// The claim stays on the row: claimed_at only ever grows, so that no message from
// before can match again.
const reopenSQL = `
UPDATE delivery
   SET status = 'pending', attempts = 0, starts = 0, available_at = ?4, due_at = ?4,
       lease_expires_at = NULL, handed_off_at = NULL, taken_at = NULL, last_error = '', settled_at = NULL
` + namedSQL + `
   AND status IN ('succeeded', 'dead', 'orphaned', 'cancelled')
RETURNING id, receiver`

// Reopen has settled deliveries owed again, at once and with all their attempts, in
// the caller's transaction. It returns the ids of those that it reopened; what is owed
// stays as it is. What a receiver did for the delivery before it will do again. After
// the commit of a transaction that is not InTx's, call Wake.
func (s *Store) Reopen(ctx context.Context, tx Tx, request waybill.ReopenRequest) ([]int64, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, reopenSQL, orAllIDs(request.Events), request.Receiver, orAllIDs(request.Deliveries), s.now())
	type reopened struct {
		id       int64
		receiver string
	}
	all, err := collect(rows, err, func(rows *sql.Rows, into *reopened) error { return rows.Scan(&into.id, &into.receiver) })
	if err != nil {
		return nil, fmt.Errorf("reopen deliveries: %w", err)
	}
	ids := make([]int64, len(all))
	for i, one := range all {
		ids[i] = one.id
		if receiver, ok := s.registry.Receiver(one.receiver); ok {
			s.signals.note(func(fired *waybill.Committed) { fired.Lane(receiver.Lane) })
		}
	}
	return ids, nil
}
