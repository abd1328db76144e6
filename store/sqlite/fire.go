package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// Tx is what Fire needs of the caller's transaction: a *sql.Tx, what sqlc, bun or
// GORM make of one, or a *sql.Conn on which a transaction is open.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// InTx runs work in a transaction, commits it unless work returns an error, and
// wakes the relays of the lanes that were fired to, or reopened in, in it, if any. Work's error is
// returned as it is. The write lock is held while work runs: see the package comment.
func (s *Store) InTx(ctx context.Context, work func(tx *sql.Tx) error) error {
	wait, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	var fired waybill.Committed
	err := s.locked(wait, ctx, func(tx *sql.Tx) (err error) {
		fired, err = s.signals.during(func() error { return work(tx) })
		return err
	})
	if err != nil {
		return err
	}
	s.tell(ctx, fired)
	return nil
}

// Fire records an event, and a delivery for each of its receivers, in the
// caller's transaction: what becomes of that becomes of them. It returns the
// event's id. After the commit of a transaction that is not InTx's, call Wake.
//
// The event is a declared type, a pointer to one, a waybill.RawEvent, or a
// waybill.Envelope with one of them. tx is also what targets and due times are given
// that read in the firing transaction. Under a dedupe key that an event has already it
// returns waybill.ErrDuplicate and writes nothing; the transaction can go on.
func (s *Store) Fire(ctx context.Context, tx Tx, event any) (int64, error) {
	ids, err := s.FireAll(ctx, tx, []any{event})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// FireAll is Fire for many events, in as few statements as for one. It returns
// their ids, in order. An error fires none of them, unless the caller commits
// regardless.
func (s *Store) FireAll(ctx context.Context, tx Tx, events []any) ([]int64, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if _, pool := tx.(*sql.DB); pool {
		return nil, errors.New("fire: a pool is no transaction: use InTx, or begin one")
	}
	plans := make([]waybill.Plan, len(events))
	for i, event := range events {
		plan, err := s.registry.Plan(ctx, tx, event)
		if err != nil {
			return nil, err
		}
		plans[i] = plan
	}
	if err := checkKeys(ctx, tx, plans); err != nil {
		return nil, fmt.Errorf("fire %s: %w", names(plans), err)
	}
	now := s.now()
	ids := make([]int64, 0, len(plans))
	for chunk := range slices.Chunk(plans, eventsPerInsert) {
		inserted, err := insertEvents(ctx, tx, chunk, now)
		if err != nil {
			return nil, fmt.Errorf("fire %s: %w", names(chunk), err)
		}
		ids = append(ids, inserted...)
	}
	if err := insertDeliveries(ctx, tx, plans, ids, now); err != nil {
		return nil, fmt.Errorf("fire %s: %w", names(plans), err)
	}
	s.signals.note(func(fired *waybill.Committed) { fired.Fired(s.registry, plans, ids, time.UnixMicro(now)) })
	return ids, nil
}

// FireAlone fires events in a transaction of their own, wakes the relays, and returns
// the ids in order: for what goes with no change of the application's, and for tests.
func (s *Store) FireAlone(ctx context.Context, events ...any) (ids []int64, err error) {
	err = s.InTx(ctx, func(tx *sql.Tx) error {
		ids, err = s.FireAll(ctx, tx, events)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// checkKeys looks for dedupe keys that are taken before anything is written. Nobody
// can take one between the two: the transaction writes what it read, or fails.
func checkKeys(ctx context.Context, tx Tx, plans []waybill.Plan) error {
	fired := map[string]bool{}
	for _, plan := range plans {
		key := plan.Event.DedupeKey
		if key == "" {
			continue
		}
		rows, err := tx.QueryContext(ctx, `SELECT id FROM event WHERE dedupe_key = ?`, key)
		holders, err := collect(rows, err, scanOne[int64])
		switch {
		case err != nil:
			return fmt.Errorf("dedupe key %q: %w", key, err)
		case len(holders) > 0:
			return &waybill.DuplicateError{Key: key, EventID: holders[0]}
		case fired[key]:
			return &waybill.DuplicateError{Key: key}
		}
		fired[key] = true
	}
	return nil
}

// Payloads are bound one by one, not as JSON within JSON: they may be large. Twelve
// parameters each stay far below SQLite's limit of 32,766.
const (
	insertEventsHead = `
INSERT INTO event (name, version, payload, headers, recorded_at, dedupe_key, occurred_at,
       correlation_id, causation_id, suppressed_reason, retention_seconds, delete_when) VALUES `
	insertEventsRow  = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertEventsTail = ` RETURNING id`

	eventsPerInsert = 500
)

func insertEvents(ctx context.Context, tx Tx, plans []waybill.Plan, now int64) ([]int64, error) {
	args := make([]any, 0, 12*len(plans))
	for _, plan := range plans {
		event := plan.Event
		var headers string
		if len(event.Headers) > 0 {
			text, err := json.Marshal(event.Headers)
			if err != nil {
				return nil, fmt.Errorf("encode headers: %w", err)
			}
			headers = string(text)
		}
		var occurred any
		if !event.OccurredAt.IsZero() {
			occurred = event.OccurredAt.UnixMicro()
		}
		args = append(args, event.Name, event.Version, string(event.Payload), orNull(headers), now,
			orNull(event.DedupeKey), occurred,
			orNull(event.CorrelationID), orNull(event.CausationID), orNull(event.Suppressed),
			orNull(int64(event.Retention.Keep/time.Second)), orNull(string(event.Retention.Consumed)))
	}
	query := insertEventsHead + strings.TrimPrefix(strings.Repeat(", "+insertEventsRow, len(plans)), ", ") + insertEventsTail
	rows, err := tx.QueryContext(ctx, query, args...)
	ids, err := collect(rows, err, scanOne[int64])
	if err != nil {
		return nil, err
	}
	if len(ids) != len(plans) {
		return nil, fmt.Errorf("%d events gave %d ids", len(plans), len(ids))
	}
	// Ids ascend in the order of the rows; that of RETURNING is not promised.
	slices.Sort(ids)
	return ids, nil
}

// orNull is how the zero value, which stands for nothing, is kept.
func orNull[T comparable](value T) any {
	var nothing T
	if value == nothing {
		return nil
	}
	return value
}

const insertDeliveriesSQL = `
INSERT INTO delivery (event_id, receiver, target, target_digest, max_attempts, available_at, due_at)
SELECT value ->> 0, value ->> 1, value ->> 2, unhex(value ->> 3), value ->> 4, value ->> 5, value ->> 5
  FROM json_each(?1) ORDER BY key`

func insertDeliveries(ctx context.Context, tx Tx, plans []waybill.Plan, ids []int64, now int64) error {
	var rows [][6]any
	for i, plan := range plans {
		for _, d := range plan.Deliveries {
			digest := waybill.TargetDigest(d.Target)
			due := max(now, int64(waybill.StampOf(d.DueAt)))
			rows = append(rows, [6]any{ids[i], d.Receiver, d.Target, hex.EncodeToString(digest[:]), d.MaxAttempts, due})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encode deliveries: %w", err)
	}
	_, err = tx.ExecContext(ctx, insertDeliveriesSQL, string(encoded))
	return err
}

// names says in an error what was fired.
func names(plans []waybill.Plan) string {
	if len(plans) == 1 {
		return plans[0].Event.Name
	}
	return fmt.Sprintf("%d events, the first %s", len(plans), plans[0].Event.Name)
}
