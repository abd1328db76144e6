package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// eventColumns are what scanEvent reads.
const eventColumns = `id, name, version, payload, headers, recorded_at,
       COALESCE(occurred_at, recorded_at), COALESCE(correlation_id, id::text), COALESCE(causation_id, 0)`

const eventsOfSQL = `
SELECT ` + eventColumns + `
  FROM waybill.event WHERE id > $1 AND ($2 = '' OR name = $2) ORDER BY id LIMIT $3`

// Events returns the events of a name, in the order of their ids.
func (s *Store) Events(ctx context.Context, request waybill.EventsRequest) ([]*waybill.Event, error) {
	if request.Limit < 1 {
		return nil, fmt.Errorf("read events %q: limit %d is not positive", request.Name, request.Limit)
	}
	var events []*waybill.Event
	err := s.send(ctx, func(batch *pgx.Batch) {
		events = nil
		batch.Queue(s.sql(eventsOfSQL), request.After, request.Name, request.Limit).Query(func(rows pgx.Rows) error {
			defer rows.Close()
			for rows.Next() {
				event, err := scanEvent(rows)
				if err != nil {
					return err
				}
				events = append(events, event)
			}
			return rows.Err()
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read events %q: %w", request.Name, err)
	}
	return events, nil
}

// scanEvent reads the eventColumns of a row.
func scanEvent(rows pgx.Rows) (*waybill.Event, error) {
	event, headers := &waybill.Event{}, []byte(nil)
	if err := rows.Scan(&event.ID, &event.Name, &event.Version, &event.Payload, &headers, &event.RecordedAt,
		&event.OccurredAt, &event.CorrelationID, &event.CausationID); err != nil {
		return nil, err
	}
	event.Headers = waybill.DecodeHeaders(headers)
	event.RecordedAt, event.OccurredAt = event.RecordedAt.UTC(), event.OccurredAt.UTC()
	return event, nil
}
