package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
)

// DB is what an event is fired in: a pgx.Tx and, for an event that goes with no
// change of the application's own, a *pgxpool.Pool or a *pgx.Conn.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Fire writes an event, and a row for each receiver it is owed to, in the
// caller's transaction, and returns the event's id. Nothing is owed unless the
// transaction commits. It is one statement, whatever the fan-out.
//
// The event is a declared type, a pointer to one, a waybill.RawEvent, or a
// waybill.Envelope with one of them. tx is also what targets and due times are given
// that read in the firing transaction. The time is bounded by ctx alone, like that of
// the caller's other statements.
//
// After the commit of a transaction that is not InTx's, and after firing in a pool or a
// connection, call Wake. An event that nobody receives is recorded, and no error.
//
// Under a dedupe key that an event has already it returns waybill.ErrDuplicate and
// writes nothing; the transaction can go on. It waits for a transaction that is firing
// under the same key at that moment.
func (s *Store) Fire(ctx context.Context, tx DB, event any) (int64, error) {
	ids, err := s.FireAll(ctx, tx, []any{event})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// FireAll fires several events by one statement and returns their ids in order.
// It writes all of them, or returns an error and writes none.
func (s *Store) FireAll(ctx context.Context, tx DB, events []any) ([]int64, error) {
	if len(events) == 0 {
		return nil, nil
	}
	rows, err := s.plan(ctx, knownAs(tx), events)
	if err != nil {
		return nil, err
	}
	if rows.keyed && len(events) > 1 && commitsAlone(tx) {
		return nil, errSeveralKeyed
	}
	result, err := tx.Query(ctx, s.sql(rows.statement()), rows.args()...)
	if err != nil {
		return nil, fmt.Errorf("fire %d events: %w", len(events), err)
	}
	written, err := pgx.CollectRows(result, func(row pgx.CollectableRow) (one firedRow, err error) {
		return one, row.Scan(&one.id, &one.written)
	})
	if err != nil {
		return nil, fmt.Errorf("fire %d events: %w", len(events), err)
	}
	ids, key := outcome(rows, written)
	if key != "" {
		return nil, s.duplicate(ctx, tx, key, ids)
	}
	var fired waybill.Committed
	fired.Fired(s.registry, rows.plans, ids, time.Now())
	inProgress.note(s.schema, tx, fired)
	return ids, nil
}

// errSeveralKeyed: one of them may be a duplicate, and the others would be committed.
var errSeveralKeyed = errors.New("fire: several events with dedupe keys need a transaction: use InTx, or begin one")

// plan resolves what is fired into rows.
func (s *Store) plan(ctx context.Context, tx any, events []any) (*fireRows, error) {
	rows := &fireRows{}
	for i, event := range events {
		plan, err := s.registry.Plan(ctx, tx, event)
		if err != nil {
			return nil, err
		}
		if err := rows.add(i, plan); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// firedRow says of one event whether it was written.
type firedRow struct {
	id      int64
	written bool
}

// outcome returns the ids of what was written and, if anything was not, the dedupe key
// that stood in the way.
func outcome(rows *fireRows, fired []firedRow) (ids []int64, key string) {
	for i, one := range fired {
		switch {
		case one.written:
			ids = append(ids, one.id)
		case key == "":
			key = *rows.keys[i]
		}
	}
	return ids, key
}

// duplicate takes back what was written beside an event whose key is taken, and says
// who has it.
func (s *Store) duplicate(ctx context.Context, tx DB, key string, written []int64) error {
	if len(written) > 0 {
		if _, err := tx.Exec(ctx, s.sql(unfireSQL), written); err != nil {
			return fmt.Errorf("fire: take %d events back beside a duplicate of %q: %w", len(written), key, err)
		}
	}
	duplicate := &waybill.DuplicateError{Key: key}
	rows, err := tx.Query(ctx, s.sql(keyHolderSQL), key)
	if err == nil {
		duplicate.EventID, err = pgx.CollectOneRow(rows, pgx.RowTo[int64])
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("fire: find the event with dedupe key %q: %w", key, err)
	}
	return fmt.Errorf("fire: %w", duplicate)
}

// Payloads travel as text: as json they would be encoded anew, and no longer be
// what was fired. Where no event has a dedupe key, none is looked for.
const (
	fireSQL      = firedSQL + eventsSQL + deliveriesSQL + inOrderSQL + firedAllSQL
	fireKeyedSQL = firedSQL + eventsSQL + onceSQL + deliveriesSQL + writtenOnlySQL + inOrderSQL + firedOnceSQL

	firedSQL = `
WITH fired AS MATERIALIZED (
    SELECT nextval('waybill.event_id_seq') AS id, e.*
      FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::timestamptz[],
                  $7::text[], $8::bigint[], $9::text[], $10::integer[], $11::text[])
           WITH ORDINALITY AS e (name, version, payload, headers, dedupe_key, occurred_at,
                  correlation_id, causation_id, suppressed_reason, retention_seconds, delete_when, n)
), events AS (`
	eventsSQL = `
    INSERT INTO waybill.event (id, name, version, payload, headers, recorded_at, dedupe_key, occurred_at,
                  correlation_id, causation_id, suppressed_reason, retention_seconds, delete_when)
    SELECT id, name, version, payload::json, headers::json, now(), dedupe_key, occurred_at,
                  correlation_id, causation_id, suppressed_reason, retention_seconds, delete_when
      FROM fired ORDER BY n`
	onceSQL = `
    ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
    RETURNING id`
	deliveriesSQL = `
), deliveries AS (
    INSERT INTO waybill.delivery (event_id, receiver, target, target_digest, max_attempts, available_at, due_at)
    SELECT fired.id, d.receiver, d.target, d.digest, d.max_attempts, GREATEST(now(), d.due), GREATEST(now(), d.due)
      FROM unnest($12::bigint[], $13::text[], $14::text[], $15::bytea[], $16::integer[], $17::timestamptz[])
           WITH ORDINALITY AS d (event, receiver, target, digest, max_attempts, due, n)
      JOIN fired ON fired.n = d.event`
	writtenOnlySQL = `
      JOIN events ON events.id = fired.id`
	inOrderSQL = `
     ORDER BY d.n`
	firedAllSQL = `
)
SELECT id, true FROM fired ORDER BY n`
	firedOnceSQL = `
)
SELECT fired.id, events.id IS NOT NULL FROM fired LEFT JOIN events ON events.id = fired.id ORDER BY n`

	// unfireSQL has the deliveries go with their events, in the transaction that wrote
	// both: nobody else has seen them.
	unfireSQL    = `DELETE FROM waybill.event WHERE id = ANY($1::bigint[])`
	keyHolderSQL = `SELECT id FROM waybill.event WHERE dedupe_key = $1`
)

// fireRows are the columns of what is fired.
type fireRows struct {
	plans []waybill.Plan

	names        []string
	versions     []int32
	payloads     []string
	headers      []*string
	keys         []*string
	occurred     []*time.Time
	correlations []*string
	causations   []*int64
	suppressed   []*string
	retentions   []*int32
	deleteWhen   []*string
	keyed        bool // an event has a dedupe key

	event       []int64 // which of the events, counted from 1
	receivers   []string
	targets     []string
	digests     [][]byte
	maxAttempts []int32
	due         []*time.Time
}

func (r *fireRows) statement() string {
	if r.keyed {
		return fireKeyedSQL
	}
	return fireSQL
}

func (r *fireRows) args() []any {
	return []any{
		r.names, r.versions, r.payloads, r.headers, r.keys, r.occurred,
		r.correlations, r.causations, r.suppressed, r.retentions, r.deleteWhen,
		r.event, r.receivers, r.targets, r.digests, r.maxAttempts, r.due,
	}
}

func (r *fireRows) add(i int, plan waybill.Plan) error {
	event := plan.Event
	r.plans = append(r.plans, plan)
	var headers string
	if len(event.Headers) > 0 {
		text, err := json.Marshal(event.Headers)
		if err != nil {
			return fmt.Errorf("fire %s: encode headers: %w", event.Name, err)
		}
		headers = string(text)
	}
	r.names = append(r.names, event.Name)
	r.versions = append(r.versions, int32(event.Version))
	r.payloads = append(r.payloads, string(event.Payload))
	r.headers = append(r.headers, orNull(headers))
	r.keys = append(r.keys, orNull(event.DedupeKey))
	r.occurred = append(r.occurred, orNull(event.OccurredAt))
	r.correlations = append(r.correlations, orNull(event.CorrelationID))
	r.causations = append(r.causations, orNull(event.CausationID))
	r.suppressed = append(r.suppressed, orNull(event.Suppressed))
	r.retentions = append(r.retentions, orNull(int32(event.Retention.Keep/time.Second)))
	r.deleteWhen = append(r.deleteWhen, orNull(string(event.Retention.Consumed)))
	r.keyed = r.keyed || event.DedupeKey != ""
	for _, d := range plan.Deliveries {
		digest := waybill.TargetDigest(d.Target)
		r.event = append(r.event, int64(i+1))
		r.receivers = append(r.receivers, d.Receiver)
		r.targets = append(r.targets, d.Target)
		r.digests = append(r.digests, digest[:])
		r.maxAttempts = append(r.maxAttempts, int32(d.MaxAttempts))
		r.due = append(r.due, orNull(d.DueAt))
	}
	return nil
}

// orNull is how the zero value, which stands for nothing, is kept.
func orNull[T comparable](value T) *T {
	var nothing T
	if value == nothing {
		return nil
	}
	return &value
}
