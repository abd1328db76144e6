package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// GiveBack releases rows under their claims, each to be claimed again after its
// delay. A row keeps its place among the others and its claim, which a message
// already in a queue may still be taken under until somebody claims it anew.
func (s *Store) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var (
		held   held
		delays []int64
		ids    []int64
	)
	for _, row := range rows {
		held.add(row.Message)
		delays = append(delays, row.Delay.Microseconds())
	}
	err := s.send(ctx, func(batch *pgx.Batch) {
		ids = nil
		batch.Queue(s.sql(giveBackSQL), held.ids, held.by, held.at, delays).Query(collectIDs(&ids))
	})
	if err != nil {
		return nil, fmt.Errorf("give back %d deliveries: %w", len(rows), err)
	}
	return ids, nil
}

// A lease that is to be over at once ends in 1970, and so also on a clock that
// is about to step back.
const giveBackSQL = `
UPDATE waybill.delivery
   SET lease_expires_at = CASE WHEN ($4::bigint[])[array_position($1::bigint[], id)] <= 0 THEN '1970-01-01 00:00:00Z'
           ELSE now() + ($4::bigint[])[array_position($1::bigint[], id)] * interval '1 microsecond' END,
       starts = starts - CASE WHEN taken_at IS NULL THEN 0 ELSE 1 END,
       handed_off_at = NULL, taken_at = NULL
 WHERE id = ANY($1::bigint[]) AND status = 'claimed'
   AND claimed_by = ($2::text[])[array_position($1::bigint[], id)]
   AND claimed_at = ($3::timestamptz[])[array_position($1::bigint[], id)]
RETURNING id`
