package river_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
)

// emailArgs and emailWorker are a team's own job.
type emailArgs struct{}

func (emailArgs) Kind() string { return "team.email" }

type emailWorker struct {
	queue.WorkerDefaults[emailArgs]
	sent *atomic.Int64
}

func (w *emailWorker) Work(context.Context, *queue.Job[emailArgs]) error {
	w.sent.Add(1)
	return nil
}

// startTeam starts a team's client with our worker beside theirs.
func startTeam(t *testing.T, q postgresQueue, worker *river.Worker, sent *atomic.Int64) *queue.Client[pgx.Tx] {
	t.Helper()
	workers := queue.NewWorkers()
	queue.AddWorker(workers, &emailWorker{sent: sent})
	queue.AddWorker(workers, worker)
	logger, _ := logtest.New()
	client, err := queue.NewClient(riverpgxv5.New(q.pool), &queue.Config{
		Schema: q.schema, Workers: workers, Logger: logger,
		Queues: map[string]queue.QueueConfig{
			"default":       {MaxWorkers: 2},
			"waybill-mail":  {MaxWorkers: 6},
			"waybill-stock": {MaxWorkers: 6},
		},
		JobTimeout: 10 * time.Millisecond, // ours is not theirs
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return client
}

// Two lanes on a team's own client, beside the team's own jobs.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	worker := river.NewWorker()
	var sent atomic.Int64
	client := startTeam(t, q, worker, &sent)
	backend := func(lane string) *river.Backend {
		t.Helper()
		b, err := river.NewWithClient(client, worker, river.Config{Pool: q.pool, Lane: lane})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	mail, stock := backend("mail"), backend("stock")
	if err := mail.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}

	// Nobody consumes: jobs are put off, and cost no attempt.
	if _, err := mail.Enqueue(t.Context(), messages(1, 10)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the jobs are put off", func() bool {
		return q.jobs(t, "state = 'available' AND metadata ? 'snoozes' AND scheduled_at > now()") == 10
	})
	if n := q.jobs(t, "attempt <> 0 OR max_attempts <> 1"); n != 0 {
		t.Errorf("%d jobs lost an attempt, or have more than one", n)
	}
	if backlog, err := mail.Backlog(t.Context()); err != nil || backlog.Ready != waybill.Known[int64](0) {
		t.Errorf("backlog %+v, %v", backlog, err)
	}

	// Somebody does, on fewer slots than the client has.
	var now, most, came, wrong atomic.Int64
	gate := make(chan struct{})
	end := backendtest.Consuming(t, mail, 2, func(ctx context.Context, m waybill.Message) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		<-gate
		if ctx.Err() != nil || m.DeliveryID > 10 {
			wrong.Add(1)
		}
		came.Add(1)
		return nil
	})
	backendtest.Consuming(t, stock, 6, func(_ context.Context, m waybill.Message) error {
		if m.DeliveryID <= 10 {
			wrong.Add(1)
		}
		came.Add(1)
		return nil
	})
	poll.Until(t, "both slots are taken", func() bool { return now.Load() == 2 })
	if _, err := client.InsertMany(t.Context(), []queue.InsertManyParams{{Args: emailArgs{}}, {Args: emailArgs{}}}); err != nil {
		t.Fatal(err)
	}
	err := inTx(t, q, func(tx pgx.Tx) error { return stock.EnqueueTx(t.Context(), tx, messages(11, 20)) })
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the other lane's messages and the team's jobs are done", func() bool { return came.Load() == 20 && sent.Load() == 2 })
	close(gate)
	poll.Until(t, "all messages came", func() bool { return came.Load() == 30 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if most.Load() != 2 || wrong.Load() != 0 {
		t.Errorf("up to %d calls at a time, want 2; %d messages came to the wrong handler or after their context's end", most.Load(), wrong.Load())
	}
	poll.Until(t, "River's rows say so", func() bool { return q.jobs(t, "state = 'completed'") == 32 })

	// After the end of a Consume the next one gets what came meanwhile.
	if _, err := mail.Enqueue(t.Context(), messages(1, 3)); err != nil {
		t.Fatal(err)
	}
	backendtest.Consuming(t, mail, 2, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	poll.Until(t, "the messages come", func() bool { return came.Load() == 33 })
}

// Jobs that wait in a worker for a slot go back when their Consume ends.
func TestOwnClientStopped(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	worker := river.NewWorker()
	client := startTeam(t, q, worker, new(atomic.Int64))
	b, err := river.NewWithClient(client, worker, river.Config{Pool: q.pool, Lane: "mail", Drain: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Enqueue(t.Context(), messages(1, 4)); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	defer close(gate)
	var begun atomic.Int64
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
		begun.Add(1)
		<-gate
		return nil
	})
	poll.Until(t, "all are fetched", func() bool { return begun.Load() == 1 && q.jobs(t, "state = 'running'") == 4 })
	if err := end(); err == nil {
		t.Error("a stuck handler was not told of")
	}
	poll.Until(t, "three go back, and the fourth is filed away", func() bool {
		return q.jobs(t, "state = 'available' AND attempt = 0") == 3 && q.jobs(t, "state = 'discarded'") == 1
	})
}

func TestOwnClientOnSQLite(t *testing.T) {
	t.Parallel()
	db, _ := newSQLiteQueue(t)
	worker := river.NewWorker()
	workers := queue.NewWorkers()
	queue.AddWorker(workers, worker)
	logger, _ := logtest.New()
	client, err := queue.NewClient(riversqlite.New(db), &queue.Config{
		Workers: workers, Logger: logger, Queues: map[string]queue.QueueConfig{"waybill-mail": {MaxWorkers: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := river.NewWithClient(client, worker, river.Config{DB: db, Lane: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	var came atomic.Int64
	end := backendtest.Consuming(t, b, 2, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Enqueue(t.Context(), messages(1, 5)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the messages come", func() bool { return came.Load() == 5 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
