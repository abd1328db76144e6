package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// Look returns the rows as they are now.
func (s *Store) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var states []waybill.RowState
	err := s.send(ctx, func(batch *pgx.Batch) {
		states = nil
		batch.Queue(s.sql(lookSQL), ids).Query(func(rows pgx.Rows) error {
			var (
				state                     waybill.RowState
				claimed, handedOff, taken pgtype.Timestamptz
			)
			_, err := pgx.ForEachRow(rows, []any{&state.ID, &state.Status, &state.Claim.By, &claimed,
				&state.Receiver, &handedOff, &taken}, func() error {
				state.Claim.At = stampOf(claimed)
				state.HandedOffAt, state.TakenAt = stampOf(handedOff), stampOf(taken)
				states = append(states, state)
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look at %d deliveries: %w", len(ids), err)
	}
	return states, nil
}

const lookSQL = `
SELECT id, status, claimed_by, claimed_at, receiver, handed_off_at, taken_at
  FROM waybill.delivery
 WHERE id = ANY($1::bigint[])`
