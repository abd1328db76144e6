package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// Progress looks at the claimed rows of a lane.
func (s *Store) Progress(ctx context.Context, request waybill.ProgressRequest) (waybill.Progress, error) {
	except := request.Except
	if except == nil {
		except = []string{} // NULL would except everything
	}
	var progress waybill.Progress
	err := s.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(s.sql(progressSQL), request.Receivers, except).QueryRow(func(row pgx.Row) error {
			var handedOff, taken pgtype.Timestamptz
			err := row.Scan(&handedOff, &taken, &progress.Lapsed)
			progress.HandedOff, progress.Taken = stampOf(handedOff), stampOf(taken)
			return err
		})
	})
	if err != nil {
		return waybill.Progress{}, fmt.Errorf("look at the claimed rows of a lane: %w", err)
	}
	return progress, nil
}

// What was taken without a hand-off, eagerly, says nothing of the queue.
const progressSQL = `
SELECT max(handed_off_at) FILTER (WHERE taken_at IS NOT NULL AND handed_off_at <= now()), max(taken_at) FILTER (WHERE handed_off_at IS NOT NULL AND taken_at <= now()),
       COALESCE(bool_or(taken_at IS NULL AND handed_off_at IS NOT NULL AND lease_expires_at <= now()), false)
  FROM waybill.delivery
 WHERE status = 'claimed' AND ($1::text[] IS NULL OR receiver = ANY($1::text[])) AND receiver <> ALL($2::text[])`
