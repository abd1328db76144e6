package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-go/waybill"
)

const (
	namedSQL = `
 WHERE (?1 IS NULL OR event_id IN (SELECT value FROM json_each(?1))) AND (?2 = '' OR receiver = ?2)
   AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3)))`

	cancelSQL = `
UPDATE delivery SET status = 'cancelled', settled_at = ?4` + namedSQL + ` AND status IN ('pending', 'failed')`
	inFlightOfSQL = `
SELECT count(*) FROM delivery` + namedSQL + ` AND status = 'claimed'`
)

// Cancel withdraws deliveries that are owed and not claimed, in the caller's
// transaction: they are withdrawn when that commits, and never were if it does not.
// What is dead or settled otherwise stays as it is, and may be named.
func (s *Store) Cancel(ctx context.Context, tx Tx, request waybill.CancelRequest) (result waybill.CancelResult, err error) {
	if err := request.Validate(); err != nil {
		return result, err
	}
	events, deliveries := orAllIDs(request.Events), orAllIDs(request.Deliveries)
	changed, err := tx.ExecContext(ctx, cancelSQL, events, request.Receiver, deliveries, s.now())
	if err != nil {
		return result, fmt.Errorf("cancel deliveries: %w", err)
	}
	cancelled, err := changed.RowsAffected()
	if err != nil {
		return result, fmt.Errorf("cancel deliveries: %w", err)
	}
	rows, err := tx.QueryContext(ctx, inFlightOfSQL, events, request.Receiver, deliveries)
	inFlight, err := collect(rows, err, scanOne[int])
	if err != nil {
		return result, fmt.Errorf("count deliveries in flight: %w", err)
	}
	return waybill.CancelResult{Cancelled: int(cancelled), InFlight: inFlight[0]}, nil
}

// orAllIDs is a list in one parameter, where nil is no condition at all.
func orAllIDs(ids []int64) any {
	if ids == nil {
		return nil
	}
	text, _ := json.Marshal(ids) // cannot fail on numbers
	return string(text)
}
