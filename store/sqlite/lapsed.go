package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	waybill "github.com/waybill-go/waybill"
)

// It reads the rows that are out, not the table. ?4 is NULL for every receiver
// but those of ?5.
const claimLapsedSQL = `
UPDATE delivery
   SET claimed_by = ?1, claimed_at = MAX(?2, COALESCE(claimed_at, 0) + 1),
       handed_off_at = ?2, taken_at = NULL, lease_expires_at = ?2 + ?3
 WHERE id IN (SELECT id FROM delivery INDEXED BY delivery_claimed
               WHERE status = 'claimed' AND lease_expires_at <= ?2
                 AND (?4 IS NULL OR receiver IN (SELECT value FROM json_each(?4)))
                 AND receiver NOT IN (SELECT value FROM json_each(?5))
               ORDER BY available_at, id LIMIT ?6)
RETURNING id, claimed_at, receiver, available_at, starts - attempts`

// ClaimLapsed claims rows whose lease has lapsed, oldest first.
func (s *Store) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 {
		return nil, nil
	}
	if err := checkOwner(request.By); err != nil {
		return nil, fmt.Errorf("claim lapsed rows: %w", err)
	}
	var receivers any
	except := request.Except
	if request.Receivers != nil {
		receivers, except = jsonArray(request.Receivers), nil
	}
	var claimed []waybill.ClaimedRow
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) (err error) {
		claimed, err = claimedRows(tx.QueryContext(ctx, claimLapsedSQL,
			request.By, now, request.Lease.Microseconds(), receivers, jsonArray(except), request.Limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim up to %d lapsed rows: %w", request.Limit, err)
	}
	return held(claimed, request.By), nil
}
