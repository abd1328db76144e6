package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	waybill "github.com/waybill-go/waybill"
)

// The row stays claimed, under a lease that is over (its first moment, unless it
// has to wait), and keeps its place: available_at is left alone.
const giveBackSQL = `
UPDATE delivery
   SET lease_expires_at = CASE WHEN m.delay > 0 THEN ?2 + m.delay ELSE 1 END,
       starts = starts - (taken_at IS NOT NULL), handed_off_at = NULL, taken_at = NULL
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS claimed_by, value ->> 2 AS claimed_at, value ->> 3 AS delay
          FROM json_each(?1)) AS m
 WHERE delivery.id = m.id AND delivery.status = 'claimed'
   AND delivery.claimed_by = m.claimed_by AND delivery.claimed_at = m.claimed_at
RETURNING id`

// GiveBack releases rows under their claims.
func (s *Store) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	encoded := claims(rows, func(row waybill.GiveBack) (waybill.Message, []any) {
		return row.Message, []any{row.Delay.Microseconds()}
	})
	ids, err := s.writeRows(ctx, giveBackSQL, encoded)
	if err != nil {
		return nil, fmt.Errorf("give back %d rows: %w", len(rows), err)
	}
	return ids, nil
}

// writeRows runs a statement on encoded rows and returns the ids it changed.
func (s *Store) writeRows(ctx context.Context, query, encoded string) (ids []int64, err error) {
	if encoded == noRows {
		return nil, nil
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		ids, err = changedRows(ctx, tx, query, encoded, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

func changedRows(ctx context.Context, tx *sql.Tx, query, encoded string, now int64) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, query, encoded, now)
	return collect(rows, err, scanOne[int64])
}
