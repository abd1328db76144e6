package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
)

// It reads the rows that are out, not the table. ?2 is NULL for every receiver
// but those of ?3.
const lapsedSQL = `
SELECT id, COALESCE(claimed_at, 0), receiver, available_at, starts - attempts
  FROM delivery INDEXED BY delivery_claimed
 WHERE status = 'claimed' AND lease_expires_at <= ?1
   AND (?2 IS NULL OR receiver IN (SELECT value FROM json_each(?2)))
   AND receiver NOT IN (SELECT value FROM json_each(?3))
   AND (?5 = 0 OR taken_at IS NOT NULL OR handed_off_at IS NULL OR handed_off_at < max(?6, ?1 - ?5))
 ORDER BY available_at, id LIMIT ?4`

// ClaimLapsed claims rows whose lease has lapsed, oldest first.
func (s *Store) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return s.alone().ClaimLapsed(ctx, request)
}

func (c claimer) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 {
		return nil, nil
	}
	var receivers any
	except := request.Except
	if request.Receivers != nil {
		receivers, except = jsonArray(request.Receivers), nil
	}
	var claimed []waybill.ClaimedRow
	err := c.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		rows, err := tx.QueryContext(ctx, lapsedSQL, now, receivers, jsonArray(except), request.Limit,
			request.Hold.Longest.Microseconds(), request.Hold.Overtaken)
		claimed, err = collect(rows, err, scanClaimed)
		if err != nil {
			return err
		}
		return stampClaims(ctx, tx, claimed, request.By, now, now+request.Lease.Microseconds())
	})
	if err != nil {
		return nil, fmt.Errorf("claim up to %d lapsed rows: %w", request.Limit, err)
	}
	return claimed, nil
}
