package sqlite

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// The row stays claimed, under a lease that is over (at the beginning of time,
// unless it has to wait), and keeps its place: available_at is left alone.
const giveBackSQL = `
UPDATE delivery
   SET lease_expires_at = CASE WHEN ?5 > 0 THEN ?1 + ?5 ELSE 1 END,
       starts = starts - (taken_at IS NOT NULL), handed_off_at = NULL, taken_at = NULL
 WHERE id = ?2 AND status = 'claimed' AND claimed_by = ?3 AND claimed_at = ?4`

// GiveBack releases rows under their claims.
func (s *Store) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	held, err := changeHeld(ctx, s.write, giveBackSQL, rows,
		func(row waybill.GiveBack) waybill.Message { return row.Message },
		func(row waybill.GiveBack) []any { return []any{row.Delay.Microseconds()} })
	if err != nil {
		return nil, fmt.Errorf("give back %d rows: %w", len(rows), err)
	}
	return held, nil
}
