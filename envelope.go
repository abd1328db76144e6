package waybill

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// Envelope fires an event with what goes beside it. It is fired in the place of the
// event, alone or among others; each field may be left out.
//
//	store.Fire(ctx, tx, waybill.Envelope{Event: OrderPlaced{ID: 42}, DedupeKey: "order-42"})
type Envelope struct {
	// Event is what would be fired without an envelope.
	Event any
	// DedupeKey is the key under which the event is fired once, whatever its name: a
	// second one is ErrDuplicate, for as long as the first one's row is there. At most
	// 255 bytes. It is refused for an event that is deleted once it is consumed, since
	// the key would go with it. Have it made of what is never empty.
	DedupeKey string
	// OccurredAt is when it happened, to the microsecond. Defaults to when it is
	// recorded.
	OccurredAt time.Time
	// Headers are kept with the event, beside those of a RawEvent.
	Headers map[string]string
	// CorrelationID names the chain that the event belongs to. At most 255 bytes.
	// Defaults to that of the context; see WithCorrelation.
	CorrelationID string
}

// open returns the event of an envelope, and the envelope without it.
func open(fired any) (event any, envelope Envelope, err error) {
	switch fired := fired.(type) {
	case Envelope:
		envelope = fired
	case *Envelope:
		if fired == nil {
			return nil, Envelope{}, errors.New("fire: the envelope is nil")
		}
		envelope = *fired
	default:
		return fired, Envelope{}, nil
	}
	event, envelope.Event = envelope.Event, nil
	switch event.(type) {
	case Envelope, *Envelope:
		return nil, Envelope{}, errors.New("fire: an envelope is in an envelope")
	case nil:
		return nil, Envelope{}, errors.New("fire: the envelope is empty: its Event is nil")
	}
	return event, envelope, nil
}

// address writes what an envelope says onto the event.
func (e Envelope) address(event *PlannedEvent) error {
	if err := checkHeaders(event.Name, e.Headers); err != nil {
		return err
	}
	if len(e.Headers) > 0 {
		headers := maps.Clone(event.Headers)
		if headers == nil {
			headers = make(map[string]string, len(e.Headers))
		}
		maps.Copy(headers, e.Headers)
		event.Headers = headers
	}
	if e.DedupeKey != "" {
		if err := validateName("dedupe key", e.DedupeKey); err != nil {
			return fmt.Errorf("fire %s: %w", event.Name, err)
		}
		if event.Retention.Consumed != "" {
			return fmt.Errorf("fire %s: dedupe key %q: the event is deleted once it is consumed, and the key with it; declare a retention that keeps it for a time",
				event.Name, e.DedupeKey)
		}
	}
	if e.CorrelationID != "" {
		if err := validateName("correlation id", e.CorrelationID); err != nil {
			return fmt.Errorf("fire %s: %w", event.Name, err)
		}
		event.CorrelationID = e.CorrelationID
	}
	occurred, err := moment(e.OccurredAt)
	if err != nil {
		return fmt.Errorf("fire %s: occurred at: %w", event.Name, err)
	}
	event.DedupeKey, event.OccurredAt = e.DedupeKey, occurred
	return nil
}

// ErrDuplicate is what firing under a dedupe key returns that an earlier event has.
// Nothing was written for any of the events of that call, and the transaction can go
// on: to commit what else is in it, or to roll it back, is the caller's choice. It is
// a *DuplicateError.
var ErrDuplicate = errors.New("an event with that dedupe key is there already")

// DuplicateError says which event has the dedupe key.
type DuplicateError struct {
	Key     string
	EventID int64 // of the earlier event; 0 if it cannot be seen, or is of the same call
}

func (e *DuplicateError) Error() string {
	if e.EventID == 0 {
		return fmt.Sprintf("dedupe key %q: an event has that key already", e.Key)
	}
	return fmt.Sprintf("dedupe key %q: event %d has that key already", e.Key, e.EventID)
}

// Is has errors.Is find ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// moment returns a time as every database keeps it: in UTC, to the microsecond. It
// refuses what is no moment to one of them. The zero time is none at all.
func moment(at time.Time) (time.Time, error) {
	if at.IsZero() {
		return time.Time{}, nil
	}
	if year := at.UTC().Year(); year < 1 || year > 9999 {
		return time.Time{}, fmt.Errorf("%s is not between the years 1 and 9999", at)
	}
	return at.UTC().Truncate(time.Microsecond), nil
}
