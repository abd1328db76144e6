package sqlite

import (
	"context"
	"fmt"

	waybill "github.com/waybill-go/waybill"
)

const extendSQL = `
UPDATE delivery
   SET lease_expires_at = ?2 + m.lease
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS claimed_by, value ->> 2 AS claimed_at, value ->> 3 AS lease
          FROM json_each(?1)) AS m
 WHERE delivery.id = m.id AND delivery.status = 'claimed'
   AND delivery.claimed_by = m.claimed_by AND delivery.claimed_at = m.claimed_at
RETURNING id`

// Extend sets the leases of rows from now, under their claims.
func (s *Store) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	encoded := claims(rows, func(row waybill.Extension) (waybill.Message, []any) {
		return row.Message, []any{row.Lease.Microseconds()}
	})
	ids, err := s.writeRows(ctx, extendSQL, encoded)
	if err != nil {
		return nil, fmt.Errorf("extend %d leases: %w", len(rows), err)
	}
	return ids, nil
}
