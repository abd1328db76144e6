package postgres

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// ClaimLapsed claims rows whose lease has lapsed, oldest first. It is a statement
// of its own: as an arm of Claim it would cost each claim a look at every row in
// flight.
func (s *Store) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return s.alone().ClaimLapsed(ctx, request)
}

func (c claimer) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	if request.Limit <= 0 || (request.Receivers != nil && len(request.Receivers) == 0) {
		return nil, nil
	}
	except := request.Except
	if except == nil {
		except = []string{} // NULL would except everything
	}
	rows, err := c.claim(ctx, request.By, c.sql(claimLapsedSQL),
		request.By, request.Limit, request.Receivers, request.Lease.Microseconds(), except,
		request.Hold.Longest.Microseconds(), request.Hold.Overtaken.Time())
	if err != nil {
		return nil, fmt.Errorf("claim lapsed rows: %w", err)
	}
	return rows, nil
}

const claimLapsedSQL = claimSet + `
 WHERE d.id = ANY(ARRAY(
       SELECT id FROM waybill.delivery
        WHERE status = 'claimed' AND lease_expires_at <= now()
          AND ($3::text[] IS NULL OR receiver = ANY($3::text[])) AND receiver <> ALL($5::text[])
          AND ($6::bigint = 0 OR taken_at IS NOT NULL OR handed_off_at IS NULL
               OR handed_off_at < GREATEST($7::timestamptz, now() - $6::bigint * interval '1 microsecond'))
        ORDER BY available_at, id
        LIMIT $2
          FOR UPDATE SKIP LOCKED))` + claimReturning
