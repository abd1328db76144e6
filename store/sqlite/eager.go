package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
)

// OnCommit has f called after each commit in which eager receivers were owed something.
func (s *Store) OnCommit(f func(ctx context.Context, fired waybill.EagerFired) bool) (stop func(), err error) {
	return s.commits.Set(f)
}

// Pending rows have never been claimed, or not since they were reopened.
const firedSQL = `
SELECT id, COALESCE(claimed_at, 0), receiver, available_at, starts - attempts
  FROM delivery
 WHERE event_id IN (SELECT value FROM json_each(?1)) AND receiver IN (SELECT value FROM json_each(?2))
   AND status = 'pending' AND available_at <= ?3
 ORDER BY id LIMIT ?4`

const notHandedOffSQL = `UPDATE delivery SET handed_off_at = NULL WHERE id = ?1`

// ClaimFired claims rows of events that were just fired.
func (s *Store) ClaimFired(ctx context.Context, request waybill.FiredRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 || len(request.Receivers) == 0 || len(request.Events) == 0 {
		return nil, nil
	}
	var claimed []waybill.ClaimedRow
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		paused, err := pausedLanes(ctx, tx, now)
		if err != nil {
			return err
		}
		var receivers []string
		for _, receiver := range request.Receivers {
			if !slices.Contains(paused, receiver.Lane) {
				receivers = append(receivers, receiver.Receiver)
			}
		}
		rows, err := tx.QueryContext(ctx, firedSQL, orAllIDs(request.Events), jsonArray(receivers), now, request.Limit)
		if claimed, err = collect(rows, err, scanClaimed); err != nil || len(claimed) == 0 {
			return err
		}
		if err := stampClaims(ctx, tx, claimed, request.By, now, now+request.Lease.Microseconds()); err != nil {
			return err
		}
		return change(ctx, tx, notHandedOffSQL, func(execute func(args ...any) (bool, error)) error {
			for _, row := range claimed {
				if _, err := execute(row.DeliveryID); err != nil {
					return fmt.Errorf("delivery %d: %w", row.DeliveryID, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("claim rows of %d events: %w", len(request.Events), err)
	}
	return claimed, nil
}
