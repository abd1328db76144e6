package postgres

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// OnCommit has f called after each commit in which eager receivers were owed something.
func (s *Store) OnCommit(f func(ctx context.Context, fired waybill.EagerFired) bool) (stop func(), err error) {
	return s.commits.Set(f)
}

// claimFiredSQL finds the rows by their events, which lead the unique key. Pending rows
// have never been claimed, or not since they were reopened. One that a relay is claiming
// is the relay's.
const claimFiredSQL = `
UPDATE waybill.delivery AS d
   SET status = 'claimed', claimed_by = $1,
       claimed_at = GREATEST(now(), d.claimed_at + interval '1 microsecond'),
       handed_off_at = NULL, taken_at = NULL,
       lease_expires_at = now() + $4::bigint * interval '1 microsecond'
 WHERE d.id = ANY(ARRAY(
       SELECT id FROM waybill.delivery
        WHERE event_id = ANY($5::bigint[]) AND receiver = ANY($3::text[])
          AND status || '' = 'pending' AND available_at <= now()
          AND ($6::text[])[array_position($3::text[], receiver)] <> ALL(ARRAY(` + pausedLanesSQL + `))
        ORDER BY id
        LIMIT $2
          FOR UPDATE SKIP LOCKED))` + claimReturning

// ClaimFired claims rows of events that were just fired.
func (s *Store) ClaimFired(ctx context.Context, request waybill.FiredRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 || len(request.Receivers) == 0 || len(request.Events) == 0 {
		return nil, nil
	}
	var receivers, lanes []string
	for _, receiver := range request.Receivers {
		receivers, lanes = append(receivers, receiver.Receiver), append(lanes, receiver.Lane)
	}
	rows, err := s.alone().claim(ctx, request.By, s.sql(claimFiredSQL),
		request.By, request.Limit, receivers, request.Lease.Microseconds(), request.Events, lanes)
	if err != nil {
		return nil, fmt.Errorf("claim rows of %d events: %w", len(request.Events), err)
	}
	return rows, nil
}
