package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// eventColumns are what scanEvent reads.
const eventColumns = `id, name, version, payload, headers, recorded_at,
       COALESCE(occurred_at, recorded_at), COALESCE(correlation_id, CAST(id AS TEXT)), COALESCE(causation_id, 0)`

const eventsOfSQL = `
SELECT ` + eventColumns + `
  FROM event WHERE id > ?1 AND (?2 = '' OR name = ?2) ORDER BY id LIMIT ?3`

// Events returns the events of a name, in the order of their ids.
func (s *Store) Events(ctx context.Context, request waybill.EventsRequest) ([]*waybill.Event, error) {
	if request.Limit < 1 {
		return nil, fmt.Errorf("read events %q: limit %d is not positive", request.Name, request.Limit)
	}
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	rows, err := s.read().QueryContext(ctx, eventsOfSQL, request.After, request.Name, request.Limit)
	events, err := collect(rows, err, func(rows *sql.Rows, into **waybill.Event) error { return scanEvent(rows, into) })
	if err != nil {
		return nil, fmt.Errorf("read events %q: %w", request.Name, err)
	}
	return events, nil
}

// scanEvent reads the eventColumns of a row.
func scanEvent(row interface{ Scan(into ...any) error }, into **waybill.Event) error {
	event := new(waybill.Event)
	var (
		headers  []byte
		recorded waybill.Stamp
		occurred int64
	)
	if err := row.Scan(&event.ID, &event.Name, &event.Version, &event.Payload, &headers, &recorded,
		&occurred, &event.CorrelationID, &event.CausationID); err != nil {
		return err
	}
	event.RecordedAt, event.OccurredAt = recorded.Time(), time.UnixMicro(occurred).UTC()
	event.Headers = waybill.DecodeHeaders(headers)
	*into = event
	return nil
}
