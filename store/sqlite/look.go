package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	waybill "github.com/waybill-go/waybill"
)

const lookSQL = `
SELECT id, status, claimed_by, COALESCE(claimed_at, 0), receiver, COALESCE(handed_off_at, 0), COALESCE(taken_at, 0)
  FROM delivery WHERE id IN (SELECT value FROM json_each(?1))`

// Look returns the rows as they are now.
func (s *Store) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	rows, err := s.reader.QueryContext(ctx, lookSQL, jsonArray(ids))
	states, err := collect(rows, err, func(rows *sql.Rows, row *waybill.RowState) error {
		return rows.Scan(&row.ID, &row.Status, &row.Claim.By, &row.Claim.At, &row.Receiver, &row.HandedOffAt, &row.TakenAt)
	})
	if err != nil {
		return nil, fmt.Errorf("look at %d deliveries: %w", len(ids), err)
	}
	return states, nil
}
