package sqlite

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// What was taken without a hand-off, eagerly, says nothing of the queue.
const progressSQL = `
SELECT COALESCE(max(handed_off_at) FILTER (WHERE taken_at IS NOT NULL AND handed_off_at <= ?1), 0), COALESCE(max(taken_at) FILTER (WHERE handed_off_at IS NOT NULL AND taken_at <= ?1), 0),
       COALESCE(max(taken_at IS NULL AND handed_off_at IS NOT NULL AND lease_expires_at <= ?1), 0)
  FROM delivery INDEXED BY delivery_claimed
 WHERE status = 'claimed' AND (?2 IS NULL OR receiver IN (SELECT value FROM json_each(?2)))
   AND receiver NOT IN (SELECT value FROM json_each(?3))`

// Progress looks at the claimed rows of a lane.
func (s *Store) Progress(ctx context.Context, request waybill.ProgressRequest) (progress waybill.Progress, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	var receivers any
	if request.Receivers != nil {
		receivers = jsonArray(request.Receivers)
	}
	err = s.read().QueryRowContext(ctx, progressSQL, s.now(), receivers, jsonArray(request.Except)).
		Scan(&progress.HandedOff, &progress.Taken, &progress.Lapsed)
	if err != nil {
		return waybill.Progress{}, fmt.Errorf("look at the claimed rows of a lane: %w", err)
	}
	return progress, nil
}
