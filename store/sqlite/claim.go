package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
)

// Each receiver's due rows stand in the index in the order of the claim, and
// SQLite leaves a receiver as soon as its next row is younger than the limit's
// worth it has: it reads receivers × limit entries at most, however many rows are
// due.
const dueSQL = `
SELECT id, COALESCE(claimed_at, 0), receiver, available_at, starts - attempts
  FROM delivery INDEXED BY delivery_due
 WHERE status IN ('pending', 'failed') AND available_at <= ?1
   AND receiver IN (SELECT value FROM json_each(?2))
 ORDER BY available_at, id LIMIT ?3`

const claimSQL = `
UPDATE delivery
   SET status = 'claimed', claimed_by = ?1, claimed_at = ?2,
       handed_off_at = ?3, taken_at = NULL, lease_expires_at = ?4
 WHERE id = ?5`

// Claim claims due rows of the named receivers, oldest first.
func (s *Store) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return s.alone().Claim(ctx, request)
}

func (c claimer) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 || len(request.Receivers) == 0 {
		return nil, nil
	}
	var claimed []waybill.ClaimedRow
	err := c.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		rows, err := tx.QueryContext(ctx, dueSQL, now, jsonArray(request.Receivers), request.Limit)
		claimed, err = collect(rows, err, scanClaimed)
		if err != nil {
			return err
		}
		return stampClaims(ctx, tx, claimed, request.By, now, now+request.Lease.Microseconds())
	})
	if err != nil {
		return nil, fmt.Errorf("claim up to %d rows: %w", request.Limit, err)
	}
	return claimed, nil
}

// Every owed receiver is found by one step down the index, whatever it owes.
const owedReceiversSQL = `
WITH RECURSIVE owed (receiver) AS (
    SELECT * FROM (SELECT receiver FROM delivery INDEXED BY delivery_due
                    WHERE status IN ('pending', 'failed') ORDER BY receiver LIMIT 1)
    UNION ALL
    SELECT (SELECT d.receiver FROM delivery d INDEXED BY delivery_due
             WHERE d.status IN ('pending', 'failed') AND d.receiver > owed.receiver
             ORDER BY d.receiver LIMIT 1)
      FROM owed WHERE owed.receiver IS NOT NULL)
SELECT receiver FROM owed
 WHERE receiver IS NOT NULL AND receiver NOT IN (SELECT value FROM json_each(?1))`

// OwedReceivers returns the receivers with pending or failed rows, sorted.
func (s *Store) OwedReceivers(ctx context.Context, except []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	rows, err := s.read().QueryContext(ctx, owedReceiversSQL, jsonArray(except))
	receivers, err := collect(rows, err, scanOne[string])
	if err != nil {
		return nil, fmt.Errorf("find owed receivers: %w", err)
	}
	return receivers, nil
}

// scanClaimed reads a row that is about to be claimed, with its last stamp.
func scanClaimed(rows *sql.Rows, row *waybill.ClaimedRow) error {
	return rows.Scan(&row.DeliveryID, &row.Claim.At, &row.Receiver, &row.AvailableAt, &row.LostRuns)
}

// stampClaims claims rows that were read under the write lock.
func stampClaims(ctx context.Context, tx *sql.Tx, rows []waybill.ClaimedRow, by string, now, leaseEnd int64) error {
	if len(rows) == 0 {
		return nil
	}
	return change(ctx, tx, claimSQL, func(execute func(args ...any) (bool, error)) error {
		for i := range rows {
			row := &rows[i]
			row.Claim = waybill.Claim{By: by, At: nextStamp(now, row.Claim.At)}
			if _, err := execute(by, row.Claim.At, now, leaseEnd, row.DeliveryID); err != nil {
				return fmt.Errorf("delivery %d: %w", row.DeliveryID, err)
			}
		}
		return nil
	})
}

// nextStamp is later than the last stamp of a row, also under a clock that stepped
// back: an old message never matches again.
func nextStamp(now int64, last waybill.Stamp) waybill.Stamp {
	return max(waybill.Stamp(now), last+1)
}
