package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// fireBatch is how many rows are fired in one transaction.
const fireBatch = 500

// statsGap is longer than the database is about writing its own account down.
const statsGap = 600 * time.Millisecond

// fire makes the burst: so many rows that are due.
func (s *stage) fire(ctx context.Context, n int) error {
	// No wake-up: nobody is to have a part of the burst before all of it is there.
	store, err := postgres.New(postgres.Config{Pool: s.pool, Registry: registryOf(time.Minute, 0), PollOnly: true})
	if err != nil {
		return err
	}
	for fired := 0; fired < n; {
		events := make([]any, min(fireBatch, n-fired))
		for i := range events {
			events[i] = waybill.RawEvent{Name: eventName, Payload: fmt.Appendf(nil, `{"n":%d}`, fired+i)}
		}
		if err := store.InTx(ctx, func(tx pgx.Tx) error {
			_, err := store.FireAll(ctx, tx, events)
			return err
		}); err != nil {
			return err
		}
		fired += len(events)
	}
	// A burst on a table that has no statistics yet would measure that.
	_, err = s.pool.Exec(ctx, "ANALYZE waybill.event, waybill.delivery")
	return err
}

// settled counts the settled rows, with the moment by the database's clock.
func settled(ctx context.Context, pool *pgxpool.Pool) (n int, at time.Time, err error) {
	err = pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE settled_at IS NOT NULL), clock_timestamp() FROM waybill.delivery`).Scan(&n, &at)
	return n, at, err
}

// books are what the rows tell when all is over.
type books struct {
	Succeeded int // in one attempt
	Rows      int
	Starts    int // takes, of which a killed worker's are repeated
	First     time.Time
	Last      time.Time
	Wait      time.Duration // the longest from a hand-off to its take
	Typical   time.Duration // the median of that
}

func (s *stage) books(ctx context.Context) (b books, err error) {
	var wait, typical float64
	err = s.pool.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE status = 'succeeded' AND attempts = 1), sum(starts), min(handed_off_at), max(settled_at),
       extract(epoch FROM max(taken_at - handed_off_at))::float8,
       COALESCE(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM taken_at - handed_off_at)::float8), 0)
  FROM waybill.delivery`).Scan(&b.Rows, &b.Succeeded, &b.Starts, &b.First, &b.Last, &wait, &typical)
	b.Wait, b.Typical = seconds(wait), seconds(typical)
	return b, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// writes is how many rows the database updated, by its own account, which it writes
// down a moment after the connections that did it are closed. It is read until it
// stays the same.
func (s *stage) writes(ctx context.Context) (int, error) {
	ticker := time.NewTicker(statsGap)
	defer ticker.Stop()
	for before := -1; ; {
		var n int
		err := s.pool.QueryRow(ctx, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = 'waybill.delivery'::regclass`).Scan(&n)
		if err != nil || n == before && n > 0 {
			return n, err
		}
		before = n
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
