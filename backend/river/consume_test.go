package river_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
)

// outcomes handles deliveries 1 to 4 in the four ways a handler can end.
func outcomes(stopping <-chan struct{}) waybill.Handler {
	return func(ctx context.Context, m waybill.Message) error {
		switch m.DeliveryID {
		case 2:
			return errors.New("the store is out of reach")
		case 3:
			panic("unheard of")
		case 4:
			<-ctx.Done()
			<-stopping
			return ctx.Err()
		}
		return nil
	}
}

// River's row says how the handler ended, and is never worked again.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	logger, log := logtest.New()
	b := open(t, river.Config{Pool: q.pool, Logger: logger})
	if _, err := b.Enqueue(t.Context(), messages(1, 4)); err != nil {
		t.Fatal(err)
	}
	stopping := make(chan struct{})
	end := backendtest.Consuming(t, b, 4, outcomes(stopping))
	poll.Until(t, "three are done", func() bool { return q.jobs(t, "finalized_at IS NOT NULL") == 3 })
	time.AfterFunc(50*time.Millisecond, func() { close(stopping) })
	if err := end(); err != nil {
		t.Error(err)
	}
	for id, want := range []string{
		1: "state = 'completed' AND errors IS NULL",
		2: "state = 'discarded' AND errors[1]->>'error' = 'the store is out of reach'",
		3: "state = 'discarded' AND errors[1]->>'error' LIKE 'panic: unheard of%consume_test.go%'",
		4: "state = 'discarded' AND errors[1]->>'error' = 'context canceled'",
	} {
		if want != "" && q.jobs(t, want+" AND attempt = 1 AND args->>'delivery_id' = '"+string(rune('0'+id))+"'") != 1 {
			t.Errorf("the job of delivery %d is not %s", id, want)
		}
	}
	log.Want(t, 1, "level=ERROR")
	log.Want(t, 1, "level=ERROR", "panicked", "unheard of", "delivery_id=3")
}

func TestOutcomesOnSQLite(t *testing.T) {
	t.Parallel()
	db, _ := newSQLiteQueue(t)
	logger, log := logtest.New()
	b := open(t, river.Config{DB: db, Logger: logger})
	if _, err := b.Enqueue(t.Context(), messages(1, 4)); err != nil {
		t.Fatal(err)
	}
	stopping := make(chan struct{})
	end := backendtest.Consuming(t, b, 4, outcomes(stopping))
	count := func(condition string) int {
		t.Helper()
		return sqliteNumber(t, db, "SELECT count(*) FROM river_job WHERE "+condition)
	}
	poll.Until(t, "three are done", func() bool { return count("finalized_at IS NOT NULL") == 3 })
	time.AfterFunc(50*time.Millisecond, func() { close(stopping) })
	if err := end(); err != nil {
		t.Error(err)
	}
	if count("state = 'completed' AND attempt = 1 AND errors IS NULL") != 1 || count("state = 'discarded' AND attempt = 1") != 3 {
		t.Error("not one job is completed and three discarded")
	}
	log.Want(t, 1, "level=ERROR", "panicked", "delivery_id=3")
}

// The jobs of a process that was killed stay running until they are found stuck,
// and are then filed away, not worked again.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool, StuckAfter: 100 * time.Millisecond})
	if _, err := b.Enqueue(t.Context(), messages(1, 3)); err != nil {
		t.Fatal(err)
	}
	backendtest.CrashConsumer(t, "postgres "+q.url+" "+q.schema, 2)
	poll.Until(t, "the two that the process held are overdue", func() bool {
		return q.jobs(t, "state = 'running' AND attempted_at < now() - interval '200ms'") == 2
	})
	exec(t, q.url, "DELETE FROM "+q.schema+".river_leader") // which it may have been
	var came atomic.Int64
	backendtest.Consuming(t, b, 2, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	poll.Until(t, "the jobs are filed away", func() bool { return q.jobs(t, "state = 'discarded'") == 2 })
	if n := came.Load(); n != 1 {
		t.Errorf("%d messages came, want the one that waited", n)
	}
}

// A handler that does not return cannot hold Consume for ever.
func TestConsumeLeavesStuckHandlerBehind(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool, Drain: 50 * time.Millisecond})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	var running atomic.Bool
	gate := make(chan struct{})
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
		running.Store(true)
		<-gate
		return nil
	})
	poll.Until(t, "the message is handled", running.Load)
	err := end()
	if err == nil || !strings.Contains(err.Error(), "1 handler calls still ran") {
		t.Errorf("error %v", err)
	}
	if n := q.jobs(t, "state = 'discarded' AND errors[1]->>'error' LIKE 'still running%'"); n != 1 {
		t.Errorf("%d jobs say that they were left behind, want 1", n)
	}
	close(gate)
}

// What was fetched and not handed over is back in its place when Consume returns.
func TestConsumePutsBack(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool})
	batch := messages(1, 200)
	if _, err := b.Enqueue(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	before := q.number(t, "SELECT count(DISTINCT (id, scheduled_at)) FROM "+q.schema+".river_job")
	var came atomic.Int64
	for range 5 { // stopped in the midst of it
		begun := came.Load()
		end := backendtest.Consuming(t, b, 50, func(context.Context, waybill.Message) error {
			came.Add(1)
			time.Sleep(5 * time.Millisecond)
			return nil
		})
		poll.Until(t, "some are handled", func() bool { return came.Load() > begun || came.Load() == 200 })
		if err := end(); err != nil {
			t.Fatal(err)
		}
		done := q.jobs(t, "state = 'completed'")
		if waiting := q.jobs(t, "state = 'available' AND attempt = 0 AND scheduled_at <= now()"); done+waiting != 200 || int64(done) != came.Load() {
			t.Fatalf("%d jobs completed and %d available of 200, %d handled", done, waiting, came.Load())
		}
	}
	for i := range 20 { // stopped while it starts
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*4*time.Millisecond)
		err := b.Consume(ctx, 5, func(context.Context, waybill.Message) error {
			came.Add(1)
			return nil
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if n := q.jobs(t, "state = 'running'"); n != 0 {
			t.Fatalf("%d jobs were left running", n)
		}
	}
	// Put back by a duration, which on a busy machine is old when it is applied.
	after := q.number(t, "SELECT count(DISTINCT (id, scheduled_at)) FROM "+q.schema+".river_job WHERE scheduled_at <= created_at + interval '250 milliseconds'")
	if after != before {
		t.Errorf("%d of %d jobs kept their place", after, before)
	}
}

// A job of another kind in the queue is reported once and holds nothing up; one in
// another queue of the schema is left alone.
func TestForeignKind(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	logger, log := logtest.New()
	b := open(t, river.Config{Pool: q.pool, Logger: logger})
	client, err := queue.NewClient(riverpgxv5.New(q.pool), &queue.Config{Schema: q.schema})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"waybill-default", "team"} {
		if _, err := client.Insert(t.Context(), rawArgs{"team.email", []byte(`{}`)}, &queue.InsertOpts{Queue: name, MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Enqueue(t.Context(), messages(1, 5)); err != nil {
		t.Fatal(err)
	}
	var came atomic.Int64
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	poll.Until(t, "the messages come", func() bool { return came.Load() == 5 })
	poll.Until(t, "the job is dropped", func() bool { return q.jobs(t, "state = 'discarded' AND queue = 'waybill-default'") == 1 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if n := q.jobs(t, "state = 'available' AND queue = 'team' AND attempt = 0"); n != 1 {
		t.Error("the job in another queue was touched")
	}
	log.Want(t, 1, "level=WARN")
	log.Want(t, 1, "level=WARN", "team.email")
}

// Two lanes share a schema, its leader and its announcements, and nothing else.
func TestTwoQueuesInOneSchema(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	var ends []func() error
	var wrong, came atomic.Int64
	lanes := []string{"mail", "stock"}
	for i, lane := range lanes {
		b := open(t, river.Config{Pool: q.pool, Lane: lane})
		ends = append(ends, backendtest.Consuming(t, b, 2, func(_ context.Context, m waybill.Message) error {
			if m.DeliveryID/100 != int64(i) {
				wrong.Add(1)
			}
			came.Add(1)
			return nil
		}))
	}
	for i, lane := range lanes {
		b := open(t, river.Config{Pool: q.pool, Lane: lane})
		if _, err := b.Enqueue(t.Context(), messages(100*i+1, 30)); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "all messages come", func() bool { return came.Load() == 60 })
	for _, end := range ends {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if wrong.Load() != 0 {
		t.Errorf("%d messages came on the other lane", wrong.Load())
	}
}

// Finished jobs go, so that the table stays small.
func TestRetention(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	db, _ := newSQLiteQueue(t)
	for name, c := range map[string]struct {
		config river.Config
		left   func() int
	}{
		"Postgres": {river.Config{Pool: q.pool}, func() int { return q.jobs(t, "true") }},
		"SQLite":   {river.Config{DB: db}, func() int { return sqliteNumber(t, db, "SELECT count(*) FROM river_job") }},
	} {
		c.config.CompletedRetention, c.config.DiscardedRetention = time.Millisecond, time.Millisecond
		b := open(t, c.config)
		if _, err := b.Enqueue(t.Context(), messages(1, 20)); err != nil {
			t.Fatal(err)
		}
		var came atomic.Int64
		handle := func(_ context.Context, m waybill.Message) error {
			came.Add(1)
			if m.DeliveryID == 1 {
				return errors.New("failed")
			}
			return nil
		}
		end := backendtest.Consuming(t, b, 20, handle)
		poll.Until(t, "all are handled on "+name, func() bool { return came.Load() == 20 })
		if err := end(); err != nil {
			t.Fatal(err)
		}
		end = backendtest.Consuming(t, b, 1, handle) // its leader cleans up as it begins
		poll.Until(t, "the table is empty on "+name, func() bool { return c.left() == 0 })
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}
