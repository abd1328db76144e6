package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	waybill "github.com/waybill-go/waybill"
)

const takeSQL = `
WITH l AS MATERIALIZED (SELECT value ->> 0 AS receiver, value ->> 1 AS lease FROM json_each(?4))
UPDATE delivery
   SET claimed_by = ?3, claimed_at = MAX(?2, delivery.claimed_at + 1), taken_at = ?2,
       starts = starts + 1, lease_expires_at = ?2 + l.lease
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS claimed_by, value ->> 2 AS claimed_at FROM json_each(?1)) AS m, l
 WHERE delivery.id = m.id AND delivery.status = 'claimed'
   AND delivery.claimed_by = m.claimed_by AND delivery.claimed_at = m.claimed_at
   AND delivery.receiver = l.receiver
RETURNING id, event_id, receiver, target, attempts + 1, max_attempts, starts, due_at,
          COALESCE(handed_off_at, 0), claimed_at`

// Take moves rows from their messages' claims to the worker's. The events are
// read in the same transaction: an error takes nothing.
func (s *Store) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	messages := claims(request.Messages, func(m waybill.Message) (waybill.Message, []any) { return m, nil })
	if messages == noRows || len(request.Leases) == 0 {
		return nil, nil
	}
	if err := checkOwner(request.By); err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	leases := make([][2]any, len(request.Leases))
	byReceiver := make(map[string]time.Duration, len(request.Leases))
	for i, lease := range request.Leases {
		leases[i] = [2]any{lease.Receiver, lease.Lease.Microseconds()}
		byReceiver[lease.Receiver] = lease.Lease
	}
	encoded, err := json.Marshal(leases)
	if err != nil {
		return nil, fmt.Errorf("take: encode leases: %w", err)
	}
	var taken []*waybill.Delivery
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		rows, err := tx.QueryContext(ctx, takeSQL, messages, now, request.By, string(encoded))
		taken, err = collect(rows, err, scanDelivery)
		if err != nil || len(taken) == 0 {
			return err
		}
		return attachEvents(ctx, tx, taken)
	})
	if err != nil {
		return nil, fmt.Errorf("take %d deliveries: %w", len(request.Messages), err)
	}
	for _, d := range taken {
		d.Claim.By, d.Lease = request.By, byReceiver[d.Receiver]
	}
	slices.SortFunc(taken, func(a, b *waybill.Delivery) int { return cmp.Compare(a.ID, b.ID) })
	return taken, nil
}

func scanDelivery(rows *sql.Rows, into **waybill.Delivery) error {
	d := &waybill.Delivery{Event: new(waybill.Event)}
	var due, handedOff waybill.Stamp
	err := rows.Scan(&d.ID, &d.Event.ID, &d.Receiver, &d.Target, &d.Attempt, &d.MaxAttempts, &d.Start,
		&due, &handedOff, &d.Claim.At)
	d.DueAt, d.HandedOffAt = due.Time(), handedOff.Time()
	*into = d
	return err
}

const eventsSQL = `
SELECT id, name, version, payload, headers, recorded_at FROM event
 WHERE id IN (SELECT value FROM json_each(?1))`

// attachEvents gives every delivery its event; those of one event share it.
func attachEvents(ctx context.Context, tx *sql.Tx, deliveries []*waybill.Delivery) error {
	var ids []int64
	for _, d := range deliveries {
		ids = append(ids, d.Event.ID)
	}
	slices.Sort(ids)
	rows, err := tx.QueryContext(ctx, eventsSQL, jsonArray(slices.Compact(ids)))
	events, err := collect(rows, err, scanEvent)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	byID := make(map[int64]*waybill.Event, len(events))
	for _, event := range events {
		byID[event.ID] = event
	}
	for _, d := range deliveries {
		event, ok := byID[d.Event.ID]
		if !ok {
			return fmt.Errorf("delivery %d: its event %d is not there", d.ID, d.Event.ID)
		}
		d.Event = event
	}
	return nil
}

func scanEvent(rows *sql.Rows, into **waybill.Event) error {
	event := new(waybill.Event)
	var headers []byte
	var recorded waybill.Stamp
	if err := rows.Scan(&event.ID, &event.Name, &event.Version, &event.Payload, &headers, &recorded); err != nil {
		return err
	}
	event.RecordedAt = recorded.Time()
	if headers != nil {
		if err := json.Unmarshal(headers, &event.Headers); err != nil {
			return fmt.Errorf("decode headers of event %d: %w", event.ID, err)
		}
	}
	*into = event
	return nil
}
