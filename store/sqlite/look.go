package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
)

const lookSQL = `
SELECT id, status, claimed_by, COALESCE(claimed_at, 0), receiver, COALESCE(handed_off_at, 0), COALESCE(taken_at, 0)
  FROM delivery WHERE id = ?1`

// Look returns the rows as they are now.
func (s *Store) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	from, done, err := s.readByID(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at %d deliveries: %w", len(ids), err)
	}
	defer done()
	states, err := find(ctx, from, lookSQL, ids, func(row *sql.Row, r *waybill.RowState) error {
		return row.Scan(&r.ID, &r.Status, &r.Claim.By, &r.Claim.At, &r.Receiver, &r.HandedOffAt, &r.TakenAt)
	})
	if err != nil {
		return nil, fmt.Errorf("look at %d deliveries: %w", len(ids), err)
	}
	return states, nil
}
