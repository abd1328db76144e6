package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// Claim claims due rows of the named receivers, oldest first.
func (s *Store) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return s.alone().Claim(ctx, request)
}

func (c claimer) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	receivers := slices.Compact(slices.Sorted(slices.Values(request.Receivers)))
	if len(receivers) == 0 || request.Limit <= 0 {
		return nil, nil
	}
	text := claimOneSQL
	if len(receivers) > 1 {
		text = claimMergedSQL(len(receivers), request.Limit)
	}
	rows, err := c.claim(ctx, request.By, c.sql(text), request.By, request.Limit, receivers, request.Lease.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("claim rows of %d receivers: %w", len(receivers), err)
	}
	return rows, nil
}

// claimSet stamps a claim. The stamp is later than any the row ever had, so that
// no clock that steps back can make an old copy match again.
const claimSet = `
UPDATE waybill.delivery AS d
   SET status = 'claimed', claimed_by = $1,
       claimed_at = GREATEST(now(), d.claimed_at + interval '1 microsecond'),
       handed_off_at = now(), taken_at = NULL,
       lease_expires_at = now() + $4::bigint * interval '1 microsecond'`

const claimReturning = `
RETURNING d.id, d.claimed_at, d.receiver, d.available_at, d.starts - d.attempts`

// claimOneSQL claims for one receiver, straight down the index. The receiver is
// compared and not searched for in an array: that would sort the whole lane.
const claimOneSQL = claimSet + `
 WHERE d.id = ANY(ARRAY(
       SELECT id FROM waybill.delivery
        WHERE status IN ('pending', 'failed') AND receiver = ($3::text[])[1] AND available_at <= now()
        ORDER BY available_at, id
        LIMIT $2
          FOR UPDATE SKIP LOCKED))` + claimReturning

// claimMergedSQL claims for several receivers: it merges one ordered branch for
// each. The candidates behind both limits are read only as far as needed. Their
// inner limit keeps each branch in index order; their outer limit is a fence
// that a recheck of a row changed meanwhile does not enter. Rows are locked one
// by one behind the fence, by primary key: an empty string beside the status
// keeps the index of due rows out of it.
//
// There are ten times as many candidates as rows wanted, so that several relays
// of one lane find rows beside those the others are claiming.
func claimMergedSQL(receivers, limit int) string {
	candidates := (10*limit + 999) / 1000 * 1000
	var branches strings.Builder
	for i := range receivers {
		if i > 0 {
			branches.WriteString("\n            UNION ALL ")
		}
		fmt.Fprintf(&branches, `(SELECT id, available_at FROM waybill.delivery
              WHERE status IN ('pending', 'failed') AND receiver = ($3::text[])[%d] AND available_at <= now()
              ORDER BY available_at, id LIMIT %d)`, i+1, candidates)
	}
	return fmt.Sprintf(claimSet+`
 WHERE d.id = ANY(ARRAY(
       SELECT locked.id
         FROM (SELECT id, available_at FROM (
            %s) AS branch
                ORDER BY available_at, id LIMIT %d) AS candidate
        CROSS JOIN LATERAL (
              SELECT x.id FROM waybill.delivery AS x
               WHERE x.id = candidate.id AND x.status || '' IN ('pending', 'failed') AND x.available_at <= now()
                 FOR UPDATE SKIP LOCKED) AS locked
        ORDER BY candidate.available_at, candidate.id
        LIMIT $2))`+claimReturning, branches.String(), candidates)
}

// claim runs a claiming statement and returns its rows, oldest first.
func (c claimer) claim(ctx context.Context, by, text string, args ...any) ([]waybill.ClaimedRow, error) {
	var claimed []waybill.ClaimedRow
	err := c.send(ctx, func(batch *pgx.Batch) {
		claimed = nil
		batch.Queue(text, args...).Query(func(rows pgx.Rows) error {
			var (
				row             waybill.ClaimedRow
				claimedAt, from pgtype.Timestamptz
			)
			_, err := pgx.ForEachRow(rows, []any{&row.DeliveryID, &claimedAt, &row.Receiver, &from, &row.LostRuns}, func() error {
				row.Claim = waybill.Claim{By: by, At: stampOf(claimedAt)}
				row.AvailableAt = stampOf(from)
				claimed = append(claimed, row)
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	// An UPDATE returns rows in the order in which it met them.
	slices.SortFunc(claimed, func(a, b waybill.ClaimedRow) int {
		return cmp.Or(cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.DeliveryID, b.DeliveryID))
	})
	return claimed, nil
}

// OwedReceivers returns the receivers that own pending or failed rows, except
// the named ones, sorted.
func (s *Store) OwedReceivers(ctx context.Context, except []string) ([]string, error) {
	if except == nil {
		except = []string{} // NULL would except everything
	}
	var owed []string
	err := s.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(s.sql(owedReceiversSQL), except).Query(func(rows pgx.Rows) (err error) {
			owed, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look for owed receivers: %w", err)
	}
	return owed, nil
}

// owedReceiversSQL hops through the index from one receiver to the next.
const owedReceiversSQL = `
WITH RECURSIVE owed (receiver) AS (
    (SELECT receiver FROM waybill.delivery
      WHERE status IN ('pending', 'failed') ORDER BY receiver LIMIT 1)
    UNION ALL
    SELECT (SELECT d.receiver FROM waybill.delivery AS d
             WHERE d.status IN ('pending', 'failed') AND d.receiver > owed.receiver
             ORDER BY d.receiver LIMIT 1)
      FROM owed WHERE owed.receiver IS NOT NULL
)
SELECT receiver FROM owed WHERE receiver IS NOT NULL AND receiver <> ALL($1::text[]) ORDER BY receiver`
