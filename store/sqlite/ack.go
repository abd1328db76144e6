package sqlite

import (
	"context"
	"fmt"

	waybill "github.com/waybill-go/waybill"
)

// The claim stays on the row: its stamp is what the next one has to be later
// than.
const ackSQL = `
UPDATE delivery
   SET status = m.status, attempts = attempts + m.attempted, starts = starts - m.deferred,
       available_at = CASE WHEN m.status = 'failed' THEN ?2 + m.wait ELSE available_at END,
       settled_at = CASE WHEN m.status = 'failed' THEN NULL ELSE ?2 END,
       lease_expires_at = NULL, last_error = m.error
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS claimed_by, value ->> 2 AS claimed_at, value ->> 3 AS status,
               value ->> 4 AS attempted, value ->> 5 AS deferred, value ->> 6 AS wait, value ->> 7 AS error
          FROM json_each(?1)) AS m
 WHERE delivery.id = m.id AND delivery.status = 'claimed'
   AND delivery.claimed_by = m.claimed_by AND delivery.claimed_at = m.claimed_at
RETURNING id`

// Ack records outcomes under the claims.
func (s *Store) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	ids, err := s.writeRows(ctx, ackSQL, encodeAcks(acks))
	if err != nil {
		return nil, fmt.Errorf("acknowledge %d deliveries: %w", len(acks), err)
	}
	return ids, nil
}

func encodeAcks(acks []waybill.Ack) string {
	return claims(acks, func(ack waybill.Ack) (waybill.Message, []any) {
		out := ack.Outcome
		return ack.Message, []any{out.Status, out.Attempted, out.Deferred, out.Wait.Microseconds(), out.Error}
	})
}
