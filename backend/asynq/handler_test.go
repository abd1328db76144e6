package asynq_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	queue "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/internal/sqlitetest"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// team is a team that runs Asynq itself: a store, a lane's queue, and servers of its own.
type team struct {
	*testing.T
	client redis.UniversalClient
	lane   string
	store  *sqlite.Store
	queue  *asynq.Backend
	log    *logtest.Log
}

// onBoth runs a test on miniredis and on a real Redis.
func onBoth(t *testing.T, test func(t *testing.T, url, lane string)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, "redis://"+miniredis.RunT(t).Addr()+"?read_timeout=3s", "mail")
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, services.Redis(t), services.Unique(t))
	})
}

func newTeam(t *testing.T, url, lane string, run func(ctx context.Context, d *waybill.Delivery) error) *team {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "mail", run, waybill.Options{Lane: "mail"})
	client := connect(t, url)
	return &team{
		T: t, client: client, lane: lane, store: sqlitetest.Open(t, reg),
		queue: open(t, asynq.Config{Redis: client, Lane: lane}),
	}
}

// work runs a worker that has no backend, until the test ends or stops it.
func (m *team) work(observer waybill.Observer) (w *worker.Worker, stop func()) {
	m.Helper()
	logger, _ := logtest.New()
	w, err := worker.New(worker.Config{Store: m.store, Logger: logger, Observer: observer})
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			m.Error(err)
		}
	}
	m.Cleanup(stop)
	return w, stop
}

func succeed(context.Context, *waybill.Delivery) error { return nil }

// serve starts a server of the team's, with a task of its own beside Waybill's.
func (m *team) serve(deliver waybill.Handler, own func()) (shutdown func()) {
	m.Helper()
	logger, log := logtest.New()
	m.log = log
	mux := queue.NewServeMux()
	mux.Handle(waybill.MessageKind, asynq.Handler(deliver))
	mux.HandleFunc("report:make", func(context.Context, *queue.Task) error {
		own()
		return nil
	})
	server := queue.NewServerFromRedisClient(m.client, queue.Config{
		Concurrency:       4,
		Queues:            map[string]int{waybill.QueueName(m.lane): 1, "own-" + m.lane: 1},
		TaskCheckInterval: checkInterval,
		ShutdownTimeout:   100 * time.Millisecond,
		LogLevel:          queue.FatalLevel,
		BaseContext:       func() context.Context { return waybill.WithLogger(context.Background(), logger) },
	})
	if err := server.Start(mux); err != nil {
		m.Fatal(err)
	}
	stopped := false
	shutdown = func() {
		if !stopped {
			stopped = true
			server.Shutdown()
		}
	}
	m.Cleanup(shutdown)
	return shutdown
}

// handOff fires n events, claims their rows as a relay does, and enqueues them.
func (m *team) handOff(n int) []waybill.Message {
	m.Helper()
	sqlitetest.Fire(m.T, m.store, n, func(int) waybill.RawEvent {
		return waybill.RawEvent{Name: "parcel.sent", Payload: []byte(`{}`)}
	})
	rows, err := m.store.Claim(m.Context(), waybill.ClaimRequest{By: "relay", Receivers: []string{"mail"}, Limit: 100, Lease: time.Minute})
	if err != nil || len(rows) != n {
		m.Fatalf("claimed %d rows, %v; want %d", len(rows), err, n)
	}
	messages := make([]waybill.Message, n)
	for i, row := range rows {
		messages[i] = row.Message
	}
	m.enqueue(messages)
	return messages
}

func (m *team) enqueue(messages []waybill.Message) {
	m.Helper()
	results, err := m.queue.Enqueue(m.Context(), messages)
	if err != nil {
		m.Fatal(err)
	}
	wantStatuses(m.T, results, len(messages), waybill.EnqueueAccepted)
}

func (m *team) row(id int64) sqlitetest.Row {
	m.Helper()
	return sqlitetest.Rows(m.T, m.store)[id-1]
}

// wantQueue fails the test unless Asynq has so many tasks of the lane behind it, all of
// them successes, and none left.
func (m *team) wantQueue(processed int) {
	m.Helper()
	inspector := queue.NewInspectorFromRedisClient(m.client)
	poll.Until(m.T, "the tasks are done", func() bool {
		info, err := inspector.GetQueueInfo(waybill.QueueName(m.lane))
		return err == nil && info.Size == 0 && info.ProcessedTotal == processed
	})
	info, err := inspector.GetQueueInfo(waybill.QueueName(m.lane))
	if err != nil || info.FailedTotal != 0 || info.Archived != 0 {
		m.Errorf("the queue is %+v, %v; want every task a success", info, err)
	}
}

func TestHandlerInATeamsOwnServer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, url, lane string) {
		m := newTeam(t, url, lane, func(_ context.Context, d *waybill.Delivery) error {
			switch d.ID {
			case 2:
				return errors.New("sold out")
			case 3:
				panic("dropped it")
			}
			return nil
		})
		var refused, owned atomic.Int64
		w, stop := m.work(func(o waybill.Observation) {
			if o.Kind == waybill.ObservedRefusal && o.Refusal == waybill.RefusedSettled {
				refused.Add(1)
			}
		})
		m.serve(w.Deliver, func() { owned.Add(1) })
		client := queue.NewClientFromRedisClient(m.client)
		put := func(kind, body, onto string) {
			t.Helper()
			if _, err := client.EnqueueContext(t.Context(), queue.NewTask(kind, []byte(body)), queue.Queue(onto)); err != nil {
				t.Fatal(err)
			}
		}
		first := m.handOff(5)
		put("report:make", "", "own-"+lane)
		put(waybill.MessageKind, "no message", waybill.QueueName(lane))
		put(waybill.MessageKind+"0", `{"delivery_id":5,"claimed_by":"a","claimed_at":"2026-11-30T09:00:00.000001Z"}`, waybill.QueueName(lane)) // a mux goes by prefixes
		m.wantQueue(7)
		m.enqueue(first[:1]) // a copy
		m.wantQueue(8)
		poll.Until(t, "the team's own task", func() bool { return owned.Load() == 1 })
		stop()
		for _, r := range sqlitetest.Rows(t, m.store) {
			want := waybill.Succeeded
			if r.ID == 2 || r.ID == 3 {
				want = waybill.Failed
			}
			if r.Status != want || r.Attempts != 1 || r.Starts != 1 {
				t.Errorf("row %+v, want one attempt that %s", r, want)
			}
		}
		if refused.Load() != 1 {
			t.Errorf("%d copies were refused, want 1", refused.Load())
		}
		m.log.Want(t, 1, "level=WARN", "dropped a task that is no message", "task_type="+waybill.MessageKind+" ", "bytes=10", "task_id=")
		m.log.Want(t, 1, "level=WARN", "dropped a task that is no message", "task_type="+waybill.MessageKind+"0 ")
		m.log.Want(t, 2, "level=")
	})
}

// A run outlasts the server that brought it, and the copy that the server gave back is
// refused.
func TestHandlerWhenTheServerShutsDownInMidRun(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, url, lane string) {
		running, hold, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		m := newTeam(t, url, lane, func(ctx context.Context, _ *waybill.Delivery) error {
			close(running) // a second run would panic
			<-hold
			ended <- ctx.Err()
			return nil
		})
		var taken atomic.Int64
		first, stop := m.work(nil)
		second, _ := m.work(func(o waybill.Observation) {
			if o.Refusal == waybill.RefusedTaken {
				taken.Add(1)
			}
		})
		shutdown := m.serve(first.Deliver, func() {})
		m.handOff(1)
		<-running
		shutdown()
		if n := pending(t, m.client, lane); n != 1 {
			t.Errorf("%d messages pending, want the one that was given back", n)
		}
		m.serve(second.Deliver, func() {}) // in another process
		poll.Until(t, "the copy is refused", func() bool { return taken.Load() == 1 })
		close(hold)
		if err := <-ended; err != nil {
			t.Errorf("the context of the run ended: %v", err)
		}
		stop()
		if r := m.row(1); r.Status != waybill.Succeeded || r.Attempts != 1 || r.Starts != 1 {
			t.Errorf("row %+v, want one success", r)
		}
		m.wantQueue(1)
	})
}

type valueKey struct{}

// What Asynq does to its context does not reach a delivery, and an error is no failure to
// Asynq, which would file the task away.
func TestHandlerHidesAsynqsContextAndErrors(t *testing.T) {
	t.Parallel()
	logger, log := logtest.New()
	ctx, cancel := context.WithTimeout(waybill.WithLogger(context.WithValue(t.Context(), valueKey{}, 7), logger), time.Minute)
	cancel()
	handler := asynq.Handler(func(ctx context.Context, m waybill.Message) error {
		_, limited := ctx.Deadline()
		if ctx.Err() != nil || limited || ctx.Value(valueKey{}) != 7 {
			t.Errorf("the delivery's context ended: %v, has a deadline: %t, carries %v", ctx.Err(), limited, ctx.Value(valueKey{}))
		}
		if m.DeliveryID != 5 || !m.Claim.Complete() {
			t.Errorf("message %+v", m)
		}
		return worker.ErrNotRunning
	})
	body := `{"delivery_id":5,"claimed_by":"a","claimed_at":"2026-11-30T09:00:00.000001Z"}`
	if err := handler.ProcessTask(ctx, queue.NewTask(waybill.MessageKind, []byte(body))); err != nil {
		t.Errorf("Asynq is told %v, want nil", err)
	}
	log.Want(t, 1, "level=WARN", "message not delivered, its row waits for its lease", "delivery_id=5", worker.ErrNotRunning.Error())
}

// A team's own servers are consumers like any other, also after Redis forgot them: then
// nothing is known for a while, and never that nobody is there.
func TestBacklogOfATeamsOwnServers(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	deliver := func(context.Context, waybill.Message) error { return nil }
	m := newTeam(t, server.URL, "mail", succeed)
	empty := open(t, asynq.Config{Redis: connect(t, server.URL), Lane: "empty"})
	elsewhere := newTeam(t, strings.TrimSuffix(server.URL, "0")+"1", "mail", succeed)
	none, four, unknown := waybill.Known(int64(0)), waybill.Known(int64(4)), waybill.Reading[int64]{}

	shutdown := m.serve(deliver, func() {})
	poll.Until(t, "the team's server is known", func() bool { return backlogOf(t, m.queue).Consumers == four })
	if got := backlogOf(t, empty).Consumers; got != none {
		t.Errorf("%s consumers of a queue that the server does not list, want none", got)
	}
	if err := m.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the team's server is known again", func() bool {
		got := backlogOf(t, m.queue).Consumers
		if got != four && got != unknown {
			t.Fatalf("%s consumers, want 4 or unknown", got)
		}
		return got == four
	})
	shutdown()
	poll.Until(t, "nobody is there", func() bool { return backlogOf(t, m.queue).Consumers == none })

	// In another database it cannot be told from one that was forgotten here.
	shutdown = elsewhere.serve(deliver, func() {})
	poll.Until(t, "nothing is known", func() bool { return backlogOf(t, m.queue).Consumers == unknown })
	letGoEmpty, endEmpty := holding(t, empty, 1)
	poll.Until(t, "another lane's consumer is known", func() bool { return backlogOf(t, empty).Consumers == waybill.Known(int64(1)) })
	if got := backlogOf(t, m.queue).Consumers; got != unknown {
		t.Errorf("%s consumers beside another lane's, want unknown", got)
	}
	letGoEmpty()
	if err := endEmpty(); err != nil {
		t.Error(err)
	}
	letGo, end := holding(t, m.queue, 1) // a Consume of the queue can be told from it
	poll.Until(t, "the consumer is known", func() bool { return backlogOf(t, m.queue).Consumers == waybill.Known(int64(1)) })
	letGo()
	if err := end(); err != nil {
		t.Error(err)
	}
	shutdown()
}
