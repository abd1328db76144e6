package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
)

// countTimes is how many times the time of a call a count may take: it reads what
// the other steps never do, every row.
const countTimes = 6

// Now returns the store's clock: the machine's.
func (s *Store) Now(ctx context.Context) (waybill.Stamp, error) {
	return waybill.Stamp(s.now()), ctx.Err()
}

const talliesSQL = `
SELECT receiver, status, count(*), min(due_at), count(*) FILTER (WHERE status = 'pending' AND due_at > ?1) FROM delivery
 GROUP BY receiver, status ORDER BY receiver, status`

// Tallies counts every row by receiver and status. It reads the whole table.
func (s *Store) Tallies(ctx context.Context) ([]waybill.Tally, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.callTimeout)
	defer cancel()
	rows, err := s.read().QueryContext(ctx, talliesSQL, s.now())
	tallies, err := collect(rows, err, func(rows *sql.Rows, t *waybill.Tally) error {
		return rows.Scan(&t.Receiver, &t.Status, &t.Rows, &t.OldestDue, &t.Scheduled)
	})
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	return tallies, nil
}

const inFlightSQL = `
SELECT receiver,
       count(*) FILTER (WHERE handed_off_at IS NOT NULL AND taken_at IS NULL),
       COALESCE(min(handed_off_at) FILTER (WHERE taken_at IS NULL), 0),
       count(taken_at), COALESCE(min(taken_at), 0),
       count(*) FILTER (WHERE handed_off_at IS NULL AND taken_at IS NULL)
  FROM delivery INDEXED BY delivery_claimed WHERE status = 'claimed'
 GROUP BY receiver ORDER BY receiver`

// InFlight counts the claimed rows by receiver.
func (s *Store) InFlight(ctx context.Context) ([]waybill.InFlight, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.callTimeout)
	defer cancel()
	rows, err := s.read().QueryContext(ctx, inFlightSQL)
	inFlight, err := collect(rows, err, func(rows *sql.Rows, n *waybill.InFlight) error {
		return rows.Scan(&n.Receiver, &n.Waiting, &n.OldestHandedOff, &n.Running, &n.OldestTaken, &n.GivenBack)
	})
	if err != nil {
		return nil, fmt.Errorf("count claimed rows: %w", err)
	}
	return inFlight, nil
}

// Two reads, so that each has its partial index.
const owedEventsSQL = `
SELECT receiver, (SELECT name FROM event WHERE id = event_id) AS name, count(*)
  FROM (SELECT receiver, event_id FROM delivery INDEXED BY delivery_due WHERE status IN ('pending', 'failed')
        UNION ALL
        SELECT receiver, event_id FROM delivery INDEXED BY delivery_claimed WHERE status = 'claimed')
 GROUP BY receiver, name ORDER BY receiver, name`

// OwedEvents counts owed rows by receiver and event name.
func (s *Store) OwedEvents(ctx context.Context) ([]waybill.OwedEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.callTimeout)
	defer cancel()
	rows, err := s.read().QueryContext(ctx, owedEventsSQL)
	owed, err := collect(rows, err, func(rows *sql.Rows, o *waybill.OwedEvent) error {
		return rows.Scan(&o.Receiver, &o.Event, &o.Rows)
	})
	if err != nil {
		return nil, fmt.Errorf("count owed events: %w", err)
	}
	return owed, nil
}
