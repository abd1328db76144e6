package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// The claim stays on the row: claimed_at only ever grows, so that no message from
// before can match again.
const reopenSQL = `
UPDATE waybill.delivery
   SET status = 'pending', attempts = 0, starts = 0, available_at = now(), due_at = now(),
       lease_expires_at = NULL, handed_off_at = NULL, taken_at = NULL, last_error = '', settled_at = NULL
 WHERE id = ANY(ARRAY(
       SELECT id FROM waybill.delivery
        WHERE ($1::bigint[] IS NULL OR event_id = ANY($1::bigint[])) AND ($2::text = '' OR receiver = $2::text)
          AND ($3::bigint[] IS NULL OR id = ANY($3::bigint[]))
          AND status IN ('succeeded', 'dead', 'orphaned', 'cancelled')
        ORDER BY id FOR UPDATE))
   AND status IN ('succeeded', 'dead', 'orphaned', 'cancelled')
RETURNING id, receiver`

// Reopen has settled deliveries owed again, at once and with all their attempts, in
// the caller's transaction. It returns the ids of those that it reopened; what is owed
// stays as it is. What a receiver did for the delivery before it will do again.
//
// After the commit of a transaction that is not InTx's or InSQLTx's, call Wake.
//
// The time is bounded by ctx alone, like that of the caller's other statements.
func (s *Store) Reopen(ctx context.Context, tx DB, request waybill.ReopenRequest) ([]int64, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, s.sql(reopenSQL), pgx.QueryExecModeCacheDescribe, request.Events, request.Receiver, request.Deliveries)
	if err != nil {
		return nil, fmt.Errorf("reopen deliveries: %w", err)
	}
	var (
		ids      []int64
		fired    waybill.Committed
		id       int64
		receiver string
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &receiver}, func() error {
		ids = append(ids, id)
		if r, ok := s.registry.Receiver(receiver); ok {
			fired.Lane(r.Lane)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reopen deliveries: %w", err)
	}
	inProgress.note(s.schema, tx, fired)
	return ids, nil
}
