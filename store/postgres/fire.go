package postgres

import (
	"context"
	"encoding/json"
	"fmt"

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
// The event is a declared type, a pointer to one, or a waybill.RawEvent. tx is
// also what targets are given that read in the firing transaction. The time is
// bounded by ctx alone, like that of the caller's other statements.
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
	var rows fireRows
	for i, event := range events {
		plan, err := s.registry.Plan(ctx, tx, event)
		if err != nil {
			return nil, err
		}
		if err := rows.add(i, plan); err != nil {
			return nil, err
		}
	}
	result, err := tx.Query(ctx, s.sql(fireSQL),
		rows.names, rows.versions, rows.payloads, rows.headers,
		rows.event, rows.receivers, rows.targets, rows.digests, rows.maxAttempts)
	if err != nil {
		return nil, fmt.Errorf("fire %d events: %w", len(events), err)
	}
	ids, err := pgx.CollectRows(result, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("fire %d events: %w", len(events), err)
	}
	inProgress.note(s.schema, tx, s.lanesOf(rows.receivers))
	return ids, nil
}

// lanesOf returns the lanes in which the receivers are now.
func (s *Store) lanesOf(receivers []string) map[string]bool {
	lanes := map[string]bool{}
	for _, key := range receivers {
		if receiver, ok := s.registry.Receiver(key); ok {
			lanes[receiver.Lane] = true
		}
	}
	return lanes
}

// Payloads travel as text: as json they would be encoded anew, and no longer be
// what was fired.
const fireSQL = `
WITH fired AS MATERIALIZED (
    SELECT nextval('waybill.event_id_seq') AS id, n, name, version, payload, headers
      FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[])
           WITH ORDINALITY AS e (name, version, payload, headers, n)
), events AS (
    INSERT INTO waybill.event (id, name, version, payload, headers, recorded_at)
    SELECT id, name, version, payload::json, headers::json, now() FROM fired ORDER BY n
), deliveries AS (
    INSERT INTO waybill.delivery (event_id, receiver, target, target_digest, max_attempts, available_at, due_at)
    SELECT fired.id, d.receiver, d.target, d.digest, d.max_attempts, now(), now()
      FROM unnest($5::bigint[], $6::text[], $7::text[], $8::bytea[], $9::integer[])
           WITH ORDINALITY AS d (event, receiver, target, digest, max_attempts, n)
      JOIN fired ON fired.n = d.event
     ORDER BY d.n
)
SELECT id FROM fired ORDER BY n`

// fireRows are the columns of what is fired.
type fireRows struct {
	names    []string
	versions []int32
	payloads []string
	headers  []*string

	event       []int64 // which of the events, counted from 1
	receivers   []string
	targets     []string
	digests     [][]byte
	maxAttempts []int32
}

func (r *fireRows) add(i int, plan waybill.Plan) error {
	var headers *string
	if len(plan.Event.Headers) > 0 {
		text, err := json.Marshal(plan.Event.Headers)
		if err != nil {
			return fmt.Errorf("fire %s: encode headers: %w", plan.Event.Name, err)
		}
		encoded := string(text)
		headers = &encoded
	}
	r.names = append(r.names, plan.Event.Name)
	r.versions = append(r.versions, int32(plan.Event.Version))
	r.payloads = append(r.payloads, string(plan.Event.Payload))
	r.headers = append(r.headers, headers)
	for _, d := range plan.Deliveries {
		digest := waybill.TargetDigest(d.Target)
		r.event = append(r.event, int64(i+1))
		r.receivers = append(r.receivers, d.Receiver)
		r.targets = append(r.targets, d.Target)
		r.digests = append(r.digests, digest[:])
		r.maxAttempts = append(r.maxAttempts, int32(d.MaxAttempts))
	}
	return nil
}

// InTx runs f in a transaction, commits it and then wakes the relays of the lanes
// that were fired to in it, if any: the way to change something and fire for it in
// one piece. f's error rolls all of it back and is returned as it is. A wake that
// fails costs a relay's poll, and never what was committed.
func (s *Store) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.rollBack(ctx, tx)
	lanes, err := inProgress.during(s.schema, tx, func() error { return f(tx) })
	if err != nil {
		return err
	}
	if err := s.within(ctx, tx.Commit); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.wakeFired(ctx, lanes)
	return nil
}

// within runs f within the time of a call.
func (s *Store) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return f(ctx)
}

func (s *Store) begin(ctx context.Context) (tx pgx.Tx, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		tx, err = s.pool.Begin(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return tx, nil
}

// rollBack ends a transaction that was not committed, whatever became of ctx, so
// that its connection returns to the pool.
func (s *Store) rollBack(ctx context.Context, tx pgx.Tx) {
	err := s.within(context.WithoutCancel(ctx), tx.Rollback)
	if err != nil && !isTxDone(err) {
		s.logger.DebugContext(ctx, "rollback failed; the connection is closed instead", "error", err)
	}
}
