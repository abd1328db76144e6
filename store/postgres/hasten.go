package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const hastenSQL = `
UPDATE waybill.delivery SET available_at = now()
 WHERE id = ANY(ARRAY(
       SELECT id FROM waybill.delivery
        WHERE (CASE WHEN $1::bigint[] IS NULL THEN attempts > 0 ELSE id = ANY($1::bigint[]) END)
          AND status = 'failed' AND available_at > now()
        ORDER BY id FOR UPDATE))
RETURNING id`

// Hasten has failed rows not wait out their backoffs.
func (s *Store) Hasten(ctx context.Context, deliveries []int64) (int, error) {
	var ids []int64
	err := s.send(ctx, func(batch *pgx.Batch) {
		ids = nil
		batch.Queue(s.sql(hastenSQL), deliveries).Query(collectIDs(&ids))
	})
	if err != nil {
		return 0, fmt.Errorf("hasten failed deliveries: %w", err)
	}
	return len(ids), nil
}
