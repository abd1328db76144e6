package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// Ack records outcomes under the claims of their runs, in one transaction. A row
// keeps its claim: the next one has to be later than it.
func (s *Store) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	if len(acks) == 0 {
		return nil, nil
	}
	var (
		succeeded held
		others    outcomes
		ids       []int64
	)
	for _, ack := range acks {
		if plainSuccess(ack.Outcome) {
			succeeded.add(ack.Message)
		} else {
			others.add(ack)
		}
	}
	err := s.send(ctx, func(batch *pgx.Batch) {
		ids = nil
		s.queueAcks(batch, succeeded, others, &ids)
	})
	if err != nil {
		return nil, fmt.Errorf("acknowledge %d deliveries: %w", len(acks), err)
	}
	return ids, nil
}

// queueAcks adds the statements for the outcomes to the batch.
func (s *Store) queueAcks(batch *pgx.Batch, succeeded held, others outcomes, ids *[]int64) {
	if len(succeeded.ids) > 0 {
		batch.Queue(s.sql(ackSucceededSQL), succeeded.ids, succeeded.by, succeeded.at).Query(collectIDs(ids))
	}
	if len(others.ids) > 0 {
		batch.Queue(s.sql(ackSQL), others.ids, others.by, others.at,
			others.statuses, others.attempted, others.deferred, others.waits, others.errors).Query(collectIDs(ids))
	}
}

func plainSuccess(o waybill.Outcome) bool {
	return o.Status == waybill.Succeeded && o.Attempted && !o.Deferred && o.Error == ""
}

// The time of an outcome is the clock's, not the transaction's: a transactional
// receiver's has been open for as long as the receiver ran.
const ackSucceededSQL = `
UPDATE waybill.delivery
   SET status = 'succeeded', attempts = attempts + 1, settled_at = clock_timestamp(),
       lease_expires_at = NULL, last_error = ''
 WHERE id = ANY($1::bigint[]) AND status = 'claimed'
   AND claimed_by = ($2::text[])[array_position($1::bigint[], id)]
   AND claimed_at = ($3::timestamptz[])[array_position($1::bigint[], id)]
RETURNING id`

const ackSQL = `
UPDATE waybill.delivery
   SET status = ($4::text[])[array_position($1::bigint[], id)],
       attempts = attempts + ($5::integer[])[array_position($1::bigint[], id)],
       starts = GREATEST(0, starts - ($6::integer[])[array_position($1::bigint[], id)]),
       available_at = CASE WHEN ($4::text[])[array_position($1::bigint[], id)] <> 'failed' THEN available_at
           ELSE clock_timestamp() + ($7::bigint[])[array_position($1::bigint[], id)] * interval '1 microsecond' END,
       settled_at = CASE WHEN ($4::text[])[array_position($1::bigint[], id)] <> 'failed' THEN clock_timestamp() END,
       last_error = ($8::text[])[array_position($1::bigint[], id)],
       lease_expires_at = NULL
 WHERE id = ANY($1::bigint[]) AND status = 'claimed'
   AND claimed_by = ($2::text[])[array_position($1::bigint[], id)]
   AND claimed_at = ($3::timestamptz[])[array_position($1::bigint[], id)]
RETURNING id`

// outcomes are the columns of acknowledgements.
type outcomes struct {
	held
	statuses  []string
	attempted []int32 // added to attempts
	deferred  []int32 // taken off starts
	waits     []int64 // microseconds
	errors    []string
}

func (o *outcomes) add(ack waybill.Ack) {
	o.held.add(ack.Message)
	o.statuses = append(o.statuses, string(ack.Outcome.Status))
	o.attempted = append(o.attempted, oneIf(ack.Outcome.Attempted))
	o.deferred = append(o.deferred, oneIf(ack.Outcome.Deferred))
	o.waits = append(o.waits, ack.Outcome.Wait.Microseconds())
	o.errors = append(o.errors, ack.Outcome.Error)
}

func oneIf(condition bool) int32 {
	if condition {
		return 1
	}
	return 0
}
