package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// Take moves rows from their messages' claims to the worker's.
func (s *Store) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	if len(request.Messages) == 0 || len(request.Leases) == 0 {
		return nil, nil
	}
	var held held
	for _, message := range request.Messages {
		held.add(message)
	}
	receivers, lanes := make([]string, len(request.Leases)), make([]string, len(request.Leases))
	micros := make([]int64, len(request.Leases))
	leases := make(map[string]time.Duration, len(request.Leases))
	for i, lease := range request.Leases {
		receivers[i], lanes[i], micros[i] = lease.Receiver, lease.Lane, lease.Lease.Microseconds()
		leases[lease.Receiver] = lease.Lease
	}
	var taken takenRows
	err := s.send(ctx, func(batch *pgx.Batch) {
		taken = takenRows{by: request.By, leases: leases, events: map[int64]*waybill.Event{}}
		batch.Queue(s.sql(takeSQL), held.ids, held.by, held.at, request.By, receivers, micros, lanes).Query(taken.scanDeliveries)
		batch.Queue(s.sql(takenEventsSQL), held.ids, request.By).Query(taken.scanEvents)
	})
	if err != nil {
		return nil, fmt.Errorf("take %d deliveries: %w", len(request.Messages), err)
	}
	return taken.deliveries, nil
}

// takeSQL asks for both halves of the claim and not for the lease: a row that
// lapsed and that nobody claimed since is still this message's. It changes no
// indexed column. The paused lanes are read once for the statement, whatever its
// rows are, and not joined with them.
const takeSQL = `
UPDATE waybill.delivery
   SET claimed_by = $4, claimed_at = GREATEST(now(), claimed_at + interval '1 microsecond'),
       taken_at = now(), starts = starts + 1,
       lease_expires_at = now() + ($6::bigint[])[array_position($5::text[], receiver)] * interval '1 microsecond'
 WHERE id = ANY($1::bigint[]) AND status = 'claimed'
   AND claimed_by = ($2::text[])[array_position($1::bigint[], id)]
   AND claimed_at = ($3::timestamptz[])[array_position($1::bigint[], id)]
   AND receiver = ANY($5::text[])
   AND ($7::text[])[array_position($5::text[], receiver)] <> ALL(ARRAY(` + pausedLanesSQL + `))
RETURNING id, event_id, receiver, target, attempts, starts, max_attempts, due_at, handed_off_at, claimed_at`

// takenEventsSQL reads each event of the rows taken by the same transaction
// once, however many of them share it. now() is the same in both statements.
const takenEventsSQL = `
SELECT ` + eventColumns + `
  FROM waybill.event
 WHERE id = ANY(ARRAY(
       SELECT event_id FROM waybill.delivery
        WHERE id = ANY($1::bigint[]) AND status = 'claimed' AND claimed_by = $2 AND taken_at = now()))`

// takenRows puts deliveries and their events together.
type takenRows struct {
	by         string
	leases     map[string]time.Duration
	events     map[int64]*waybill.Event
	deliveries []*waybill.Delivery
}

func (t *takenRows) scanDeliveries(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var (
			d                  = &waybill.Delivery{Event: &waybill.Event{}}
			attempts           int
			handedOff, claimed pgtype.Timestamptz
		)
		if err := rows.Scan(&d.ID, &d.Event.ID, &d.Receiver, &d.Target, &attempts, &d.Start,
			&d.MaxAttempts, &d.DueAt, &handedOff, &claimed); err != nil {
			return err
		}
		if shared, ok := t.events[d.Event.ID]; ok {
			d.Event = shared
		} else {
			t.events[d.Event.ID] = d.Event
		}
		d.Attempt = attempts + 1
		d.DueAt, d.HandedOffAt = d.DueAt.UTC(), stampOf(handedOff).Time()
		d.Claim = waybill.Claim{By: t.by, At: stampOf(claimed)}
		d.Lease = t.leases[d.Receiver]
		t.deliveries = append(t.deliveries, d)
	}
	return rows.Err()
}

func (t *takenRows) scanEvents(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		event, err := scanEvent(rows)
		if err != nil {
			return err
		}
		if shared, ok := t.events[event.ID]; ok {
			*shared = *event
		}
	}
	return rows.Err()
}
