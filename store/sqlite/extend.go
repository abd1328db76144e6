package sqlite

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

const extendSQL = `
UPDATE delivery
   SET lease_expires_at = ?1 + ?5
 WHERE id = ?2 AND status = 'claimed' AND claimed_by = ?3 AND claimed_at = ?4`

// Extend sets the leases of rows from now, under their claims.
func (s *Store) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return s.alone().Extend(ctx, rows)
}

func (c claimer) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	held, err := changeHeld(ctx, c.write, extendSQL, rows,
		func(row waybill.Extension) waybill.Message { return row.Message },
		func(row waybill.Extension) []any { return []any{row.Lease.Microseconds()} })
	if err != nil {
		return nil, fmt.Errorf("extend %d leases: %w", len(rows), err)
	}
	return held, nil
}
