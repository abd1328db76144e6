package sqlite

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// The claim stays on the row: its stamp is what the next one has to be later
// than.
const ackSQL = `
UPDATE delivery
   SET status = ?5, attempts = attempts + ?6, starts = starts - ?7,
       available_at = CASE WHEN ?5 = 'failed' THEN ?1 + ?8 ELSE available_at END,
       settled_at = CASE WHEN ?5 = 'failed' THEN NULL ELSE ?1 END,
       lease_expires_at = NULL, last_error = ?9
 WHERE id = ?2 AND status = 'claimed' AND claimed_by = ?3 AND claimed_at = ?4`

// Ack records outcomes under the claims.
func (s *Store) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	landed, err := changeHeld(ctx, s.write, ackSQL, acks,
		func(ack waybill.Ack) waybill.Message { return ack.Message }, outcomeArgs)
	if err != nil {
		return nil, fmt.Errorf("acknowledge %d deliveries: %w", len(acks), err)
	}
	return landed, nil
}

func outcomeArgs(ack waybill.Ack) []any {
	out := ack.Outcome
	return []any{string(out.Status), oneIf(out.Attempted), oneIf(out.Deferred), out.Wait.Microseconds(), out.Error}
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
