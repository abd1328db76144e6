package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// A claimed row is only looked at: to lock it would keep its outcome waiting for the
// caller's transaction. What was claimed between the look and the lock is left.
const cancelSQL = `
WITH named AS MATERIALIZED (
    SELECT id, status FROM waybill.delivery
     WHERE ($1::bigint[] IS NULL OR event_id = ANY($1::bigint[])) AND ($2::text = '' OR receiver = $2::text)
       AND ($3::bigint[] IS NULL OR id = ANY($3::bigint[]))
       AND status IN ('pending', 'failed', 'claimed')
), locked AS MATERIALIZED (
    SELECT id FROM waybill.delivery
     WHERE id = ANY(ARRAY(SELECT id FROM named WHERE status <> 'claimed')) AND status IN ('pending', 'failed')
     ORDER BY id FOR UPDATE
), cancelled AS (
    UPDATE waybill.delivery SET status = 'cancelled', settled_at = now()
     WHERE id = ANY(ARRAY(SELECT id FROM locked)) AND status IN ('pending', 'failed')
    RETURNING id
)
SELECT (SELECT count(*) FROM cancelled), (SELECT count(*) FROM named)`

// inFlightOfSQL looks again: what was not withdrawn was claimed, or waited for until
// somebody else had withdrawn or settled it.
const inFlightOfSQL = `
SELECT count(*) FROM waybill.delivery
 WHERE ($1::bigint[] IS NULL OR event_id = ANY($1::bigint[])) AND ($2::text = '' OR receiver = $2::text)
   AND ($3::bigint[] IS NULL OR id = ANY($3::bigint[]))
   AND status || '' = 'claimed'`

// Cancel withdraws deliveries that are owed and not claimed, in the caller's
// transaction: they are withdrawn when that commits, and never were if it does not. A
// relay that wants to claim one of them meanwhile passes it over. What is dead or
// settled otherwise stays as it is, and may be named.
//
// The time is bounded by ctx alone, like that of the caller's other statements.
func (s *Store) Cancel(ctx context.Context, tx DB, request waybill.CancelRequest) (waybill.CancelResult, error) {
	if err := request.Validate(); err != nil {
		return waybill.CancelResult{}, err
	}
	args := []any{pgx.QueryExecModeCacheDescribe, request.Events, request.Receiver, request.Deliveries}
	// Planned anew each time: with a plan that was made while the table was small it
	// would be read as a whole.
	rows, err := tx.Query(ctx, s.sql(cancelSQL), args...)
	if err != nil {
		return waybill.CancelResult{}, fmt.Errorf("cancel deliveries: %w", err)
	}
	named := 0
	result, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (result waybill.CancelResult, err error) {
		err = row.Scan(&result.Cancelled, &named)
		return result, err
	})
	if err == nil && named > result.Cancelled {
		if rows, err = tx.Query(ctx, s.sql(inFlightOfSQL), args...); err == nil {
			result.InFlight, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		}
	}
	if err != nil {
		return waybill.CancelResult{}, fmt.Errorf("cancel deliveries: %w", err)
	}
	return result, nil
}
