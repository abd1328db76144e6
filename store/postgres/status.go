package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// countTimes is how many times the time of a call a count may take: it reads what
// the other steps never do, every row.
const countTimes = 6

// Now returns the database's clock.
func (s *Store) Now(ctx context.Context) (waybill.Stamp, error) {
	var now pgtype.Timestamptz
	err := s.within(ctx, func(ctx context.Context) error {
		return s.ask(ctx, `SELECT now()`, &now)
	})
	if err != nil {
		return 0, fmt.Errorf("ask the database for its clock: %w", err)
	}
	return stampOf(now), nil
}

// Tallies counts every row by receiver and status. It reads the whole table.
func (s *Store) Tallies(ctx context.Context) ([]waybill.Tally, error) {
	tallies, err := query(ctx, s, talliesSQL, func(row pgx.CollectableRow) (tally waybill.Tally, err error) {
		var oldest pgtype.Timestamptz
		err = row.Scan(&tally.Receiver, &tally.Status, &tally.Rows, &oldest, &tally.Scheduled)
		tally.OldestDue = stampOf(oldest)
		return tally, err
	})
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	return tallies, nil
}

const talliesSQL = `
SELECT receiver, status, count(*), min(due_at), count(*) FILTER (WHERE status = 'pending' AND due_at > now())
  FROM waybill.delivery
 GROUP BY receiver, status
 ORDER BY receiver, status`

// InFlight counts the claimed rows by receiver.
func (s *Store) InFlight(ctx context.Context) ([]waybill.InFlight, error) {
	inFlight, err := queryOwed(ctx, s, inFlightSQL, func(row pgx.CollectableRow) (n waybill.InFlight, err error) {
		var handedOff, taken pgtype.Timestamptz
		err = row.Scan(&n.Receiver, &n.Waiting, &handedOff, &n.Running, &taken, &n.GivenBack)
		n.OldestHandedOff, n.OldestTaken = stampOf(handedOff), stampOf(taken)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("count claimed rows: %w", err)
	}
	return inFlight, nil
}

const inFlightSQL = `
SELECT receiver,
       count(*) FILTER (WHERE handed_off_at IS NOT NULL AND taken_at IS NULL),
       min(handed_off_at) FILTER (WHERE taken_at IS NULL),
       count(taken_at), min(taken_at),
       count(*) FILTER (WHERE handed_off_at IS NULL AND taken_at IS NULL)
  FROM waybill.delivery
 WHERE status = 'claimed'
 GROUP BY receiver
 ORDER BY receiver`

// OwedEvents counts owed rows by receiver and event name.
func (s *Store) OwedEvents(ctx context.Context) ([]waybill.OwedEvent, error) {
	owed, err := queryOwed(ctx, s, owedEventsSQL, func(row pgx.CollectableRow) (owed waybill.OwedEvent, err error) {
		err = row.Scan(&owed.Receiver, &owed.Event, &owed.Rows)
		return owed, err
	})
	if err != nil {
		return nil, fmt.Errorf("count owed events: %w", err)
	}
	return owed, nil
}

// owedEventsSQL is two reads, so that each has its partial index: no index holds the
// rows of all three statuses, and one read of them would be of the whole table. An
// event is looked up by its id for each row: a join might read all events there ever
// were.
const owedEventsSQL = `
SELECT receiver, (SELECT name FROM waybill.event WHERE id = owed.event_id) AS event, count(*)
  FROM (SELECT receiver, event_id FROM waybill.delivery WHERE status IN ('pending', 'failed')
        UNION ALL
        SELECT receiver, event_id FROM waybill.delivery WHERE status = 'claimed') AS owed
 GROUP BY receiver, event
 ORDER BY receiver, event`

// queryOwed is query for a statement that a partial index of owed rows answers. It has
// no arguments, so that its connection keeps the first plan it made; see byIndex.
func queryOwed[T any](ctx context.Context, s *Store, text string, scan pgx.RowToFunc[T]) ([]T, error) {
	return query(ctx, s, text, scan, s.plain)
}

// query returns the rows of a statement that counts, after the settings made for it.
func query[T any](ctx context.Context, s *Store, text string, scan pgx.RowToFunc[T], settings ...string) (counts []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.timeout)
	defer cancel()
	batch := batchOf(strings.Join(settings, ""))
	batch.Queue(s.sql(text)).Query(func(rows pgx.Rows) (err error) {
		counts, err = pgx.CollectRows(rows, scan)
		return err
	})
	err = s.db.send(ctx, batch)
	return counts, err
}
