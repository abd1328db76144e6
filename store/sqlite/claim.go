package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	waybill "github.com/waybill-go/waybill"
)

// Each receiver's due rows stand in the index in the order of the claim, and
// SQLite leaves a receiver as soon as its next row is younger than the limit's
// worth it has: a claim reads receivers × limit entries at most, however many
// rows are due.
const claimSQL = `
UPDATE delivery
   SET status = 'claimed', claimed_by = ?1, claimed_at = MAX(?2, COALESCE(claimed_at, 0) + 1),
       handed_off_at = ?2, taken_at = NULL, lease_expires_at = ?2 + ?3
 WHERE id IN (SELECT id FROM delivery INDEXED BY delivery_due
               WHERE status IN ('pending', 'failed') AND available_at <= ?2
                 AND receiver IN (SELECT value FROM json_each(?4))
               ORDER BY available_at, id LIMIT ?5)
RETURNING id, claimed_at, receiver, available_at, starts - attempts`

// Claim claims due rows of the named receivers, oldest first.
func (s *Store) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 || len(request.Receivers) == 0 {
		return nil, nil
	}
	if err := checkOwner(request.By); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	var claimed []waybill.ClaimedRow
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) (err error) {
		claimed, err = claimedRows(tx.QueryContext(ctx, claimSQL,
			request.By, now, request.Lease.Microseconds(), jsonArray(request.Receivers), request.Limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim up to %d rows: %w", request.Limit, err)
	}
	return held(claimed, request.By), nil
}

// Every due receiver is found by one step down the index, whatever it owes.
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
	rows, err := s.reader.QueryContext(ctx, owedReceiversSQL, jsonArray(except))
	receivers, err := collect(rows, err, scanOne[string])
	if err != nil {
		return nil, fmt.Errorf("find owed receivers: %w", err)
	}
	return receivers, nil
}

func claimedRows(rows *sql.Rows, err error) ([]waybill.ClaimedRow, error) {
	return collect(rows, err, func(rows *sql.Rows, row *waybill.ClaimedRow) error {
		return rows.Scan(&row.DeliveryID, &row.Claim.At, &row.Receiver, &row.AvailableAt, &row.LostRuns)
	})
}

// held completes claimed rows and puts them in order: RETURNING promises none.
func held(rows []waybill.ClaimedRow, by string) []waybill.ClaimedRow {
	for i := range rows {
		rows[i].Claim.By = by
	}
	slices.SortFunc(rows, func(a, b waybill.ClaimedRow) int {
		return cmp.Or(cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.DeliveryID, b.DeliveryID))
	})
	return rows
}

// checkOwner refuses an owner whose claims no message could match.
func checkOwner(by string) error {
	if by == "" {
		return errors.New("the owner is empty")
	}
	if !storable(by) {
		return fmt.Errorf("the owner %q is not UTF-8 or has a NUL", by)
	}
	return nil
}
