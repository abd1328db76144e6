package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
)

const offeredSQL = `
SELECT id, event_id, receiver, target, attempts + 1, max_attempts, starts + 1, due_at,
       COALESCE(handed_off_at, 0), claimed_by, COALESCE(claimed_at, 0)
  FROM delivery WHERE id = ?1 AND status = 'claimed'`

// The fence stands in the statement that writes, as it does in every other step.
const takeSQL = `
UPDATE delivery
   SET claimed_by = ?5, claimed_at = ?6, taken_at = ?1, starts = starts + 1, lease_expires_at = ?7
 WHERE id = ?2 AND status = 'claimed' AND claimed_by = ?3 AND claimed_at = ?4`

// Take moves rows from their messages' claims to the worker's. Rows and events
// are read in the transaction that takes: an error takes nothing.
func (s *Store) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	if len(request.Messages) == 0 || len(request.Leases) == 0 {
		return nil, nil
	}
	claims := make(map[int64]waybill.Claim, len(request.Messages))
	ids := make([]int64, len(request.Messages))
	for i, message := range request.Messages {
		ids[i] = message.DeliveryID
		claims[message.DeliveryID] = message.Claim
	}
	leases := make(map[string]waybill.ReceiverLease, len(request.Leases))
	for _, lease := range request.Leases {
		leases[lease.Receiver] = lease
	}
	var taken []*waybill.Delivery
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		offered, err := find(ctx, tx, offeredSQL, ids, scanDelivery)
		if err != nil {
			return err
		}
		paused, err := pausedLanes(ctx, tx, now)
		if err != nil {
			return err
		}
		for _, d := range offered {
			lease, known := leases[d.Receiver]
			if known && d.Claim == claims[d.ID] && !slices.Contains(paused, lease.Lane) {
				d.Lease = lease.Lease
				taken = append(taken, d)
			}
		}
		if len(taken) == 0 {
			return nil
		}
		if err := stampTakes(ctx, tx, taken, request.By, now); err != nil {
			return err
		}
		return attachEvents(ctx, tx, taken)
	})
	if err != nil {
		return nil, fmt.Errorf("take %d deliveries: %w", len(request.Messages), err)
	}
	return taken, nil
}

// scanDelivery reads a row as it will be once it is taken, but for its claim.
func scanDelivery(row *sql.Row, into **waybill.Delivery) error {
	d := &waybill.Delivery{Event: new(waybill.Event)}
	var due, handedOff waybill.Stamp
	err := row.Scan(&d.ID, &d.Event.ID, &d.Receiver, &d.Target, &d.Attempt, &d.MaxAttempts, &d.Start, &due,
		&handedOff, &d.Claim.By, &d.Claim.At)
	d.DueAt, d.HandedOffAt = due.Time(), handedOff.Time()
	*into = d
	return err
}

// stampTakes moves the claims of rows that were read under the write lock.
func stampTakes(ctx context.Context, tx *sql.Tx, taken []*waybill.Delivery, by string, now int64) error {
	return change(ctx, tx, takeSQL, func(execute func(args ...any) (bool, error)) error {
		for _, d := range taken {
			claim := waybill.Claim{By: by, At: nextStamp(now, d.Claim.At)}
			ok, err := execute(now, d.ID, d.Claim.By, d.Claim.At, claim.By, claim.At, now+d.Lease.Microseconds())
			if err != nil {
				return fmt.Errorf("delivery %d: %w", d.ID, err)
			}
			if !ok {
				return fmt.Errorf("delivery %d changed under the write lock", d.ID)
			}
			d.Claim = claim
		}
		return nil
	})
}

const eventSQL = `
SELECT ` + eventColumns + `
  FROM event WHERE id = ?1`

// attachEvents gives every delivery its event; those of one event share it.
func attachEvents(ctx context.Context, tx *sql.Tx, deliveries []*waybill.Delivery) error {
	var ids []int64
	events := make(map[int64]*waybill.Event, len(deliveries))
	for _, d := range deliveries {
		if _, ok := events[d.Event.ID]; !ok {
			events[d.Event.ID] = nil
			ids = append(ids, d.Event.ID)
		}
	}
	read, err := find(ctx, tx, eventSQL, ids, func(row *sql.Row, into **waybill.Event) error { return scanEvent(row, into) })
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	for _, event := range read {
		events[event.ID] = event
	}
	for _, d := range deliveries {
		event := events[d.Event.ID]
		if event == nil {
			return fmt.Errorf("delivery %d: its event %d is not there", d.ID, d.Event.ID)
		}
		d.Event = event
	}
	return nil
}
