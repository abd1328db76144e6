package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// Extend sets the lease of rows to the given length from now, under their claims.
func (s *Store) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return s.alone().Extend(ctx, rows)
}

func (c claimer) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var (
		held   held
		leases []int64
		ids    []int64
	)
	for _, row := range rows {
		held.add(row.Message)
		leases = append(leases, row.Lease.Microseconds())
	}
	err := c.send(ctx, func(batch *pgx.Batch) {
		ids = nil
		batch.Queue(c.sql(extendSQL), held.ids, held.by, held.at, leases).Query(collectIDs(&ids))
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases of %d deliveries: %w", len(rows), err)
	}
	return ids, nil
}

// The time is that of the statement: in a transaction that a slow claim is part of, a
// lease that counted from the begin would be cut short.
const extendSQL = `
UPDATE waybill.delivery
   SET lease_expires_at = clock_timestamp() + ($4::bigint[])[array_position($1::bigint[], id)] * interval '1 microsecond'
 WHERE id = ANY($1::bigint[]) AND status = 'claimed'
   AND claimed_by = ($2::text[])[array_position($1::bigint[], id)]
   AND claimed_at = ($3::timestamptz[])[array_position($1::bigint[], id)]
RETURNING id`
