package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/ops"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker"
)

// The clock of the processes is ten minutes ahead of the database's, or behind it:
// leases hold, also where they are extended; backoffs, deferrals and the pause that
// comes of one last as long as they should; and the status counts by the
// database's clock. Here the database's is moved, which to whoever compares the two
// is the same, and needs no program of its own; the soak moves those of processes.
func TestClocksOfProcessesDoNotMatter(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"database-ahead": 10 * time.Minute, "database-behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newClocks(t, ahead)
			const events = 20
			s.fire(events)
			s.running(t.Context(), func(ctx context.Context) {
				for status := s.status(ctx); status.Owed > 0; status = s.status(ctx) {
					if age := status.OldestOwedSeconds; age < 0 || age > patience.Seconds() {
						t.Errorf("the oldest debt is %.3f s old", age)
					}
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
						t.Fatalf("not every delivery is settled: %s", s.statuses())
					}
				}
			})
			if got, want := s.statuses(), fmt.Sprintf("succeeded %d", 4*events); got != want {
				t.Errorf("deliveries: %s; want %s", got, want)
			}
			s.none("a lease that lapsed", `SELECT * FROM app.lapse`)
			s.none("a delivery with another number of runs than outcomes", `SELECT id, receiver, attempts, starts FROM waybill.delivery
				WHERE (attempts, starts) <> (CASE receiver WHEN 'again' THEN 2 ELSE 1 END, CASE receiver WHEN 'again' THEN 2 ELSE 1 END)`)
			s.checkWaits(events)
		})
	}
}

// wait is how long the receivers here ask for.
const wait = 1500 * time.Millisecond

// clocks is an application in this process, whose database has another time.
type clocks struct {
	*database
	ahead time.Duration
	redis string

	registry *waybill.Registry
	store    *postgres.Store

	mu       sync.Mutex
	runs     map[string][]time.Time // begins, by receiver and delivery
	deferred bool                   // once, by whichever came first
}

func newClocks(t *testing.T, ahead time.Duration) *clocks {
	t.Helper()
	s := &clocks{database: newDatabase(t), ahead: ahead, redis: services.OwnRedis(t).URL, runs: map[string][]time.Time{}}
	s.migrate()
	s.exec(`CREATE SCHEMA app`)
	s.noteLapses()
	s.registry = waybill.NewRegistry()
	add := func(key string, options waybill.Options, run func(ctx context.Context, begins int) error) {
		waybill.OnAny(s.registry, key, func(ctx context.Context, d *waybill.Delivery) error {
			return run(ctx, s.begins(fmt.Sprintf("%s %d", key, d.ID)))
		}, options)
	}
	lease := 3 * time.Second
	add("plain", waybill.Options{Lease: lease}, func(ctx context.Context, _ int) error { return lasts(ctx, 20*time.Millisecond) })
	// Longer than its lease, which has to be extended.
	add("long", waybill.Options{Lease: lease, Heartbeat: true, Timeout: time.Minute}, func(ctx context.Context, _ int) error {
		return lasts(ctx, lease+500*time.Millisecond)
	})
	add("again", waybill.Options{Lease: lease}, func(_ context.Context, begins int) error {
		if begins == 1 {
			return waybill.RetryAfter(wait)
		}
		return nil
	})
	add("quota", waybill.Options{Lease: lease, Lane: "quota", GiveUpAfter: 5 * time.Minute}, func(context.Context, int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.deferred {
			return nil
		}
		s.deferred = true
		return waybill.Defer(wait)
	})
	s.store = s.open()
	return s
}

// lasts is a run of some length.
func lasts(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open opens a store whose database has another time than this process.
func (s *clocks) open() *postgres.Store {
	s.t.Helper()
	store, err := postgres.Open(s.t.Context(), s.pool, s.registry)
	if err != nil {
		s.t.Fatal(err)
	}
	store.SetClockOffset(s.ahead)
	return store
}

// begins notes the begin of a run and returns how many there were.
func (s *clocks) begins(of string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[of] = append(s.runs[of], time.Now())
	return len(s.runs[of])
}

func (s *clocks) fire(n int) {
	s.t.Helper()
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "thing.happened", Payload: []byte(`{}`)}
	}
	if err := s.store.InTx(s.t.Context(), func(tx pgx.Tx) error {
		_, err := s.store.FireAll(s.t.Context(), tx, events)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *clocks) status(ctx context.Context) ops.Report {
	s.t.Helper()
	report, err := ops.Status(ctx, s.store, s.registry, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}

// running runs a relay for each lane and a worker, beside f.
func (s *clocks) running(ctx context.Context, f func(ctx context.Context)) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(ctx, patience)
	options, err := asynq.Options(s.redis)
	if err != nil {
		s.t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	var queues []waybill.Consumer
	for _, lane := range s.registry.Lanes() {
		queue, err := asynq.New(asynq.Config{Redis: client, Lane: lane, CheckInterval: 50 * time.Millisecond})
		if err != nil {
			s.t.Fatal(err)
		}
		queues = append(queues, queue)
		// Five at a time, so that some of a lane are left when it is paused.
		r, err := relay.New(relay.Config{Store: s.open(), Backend: queue, Lane: lane, BatchSize: 5, Poll: 50 * time.Millisecond})
		if err != nil {
			s.t.Fatal(err)
		}
		group.Go(func() {
			if err := r.Run(ctx); err != nil {
				s.t.Errorf("relay: %v", err)
			}
		})
	}
	w, err := worker.New(worker.Config{Store: s.open(), Backend: waybill.Join(queues...), Slots: 40})
	if err != nil {
		s.t.Fatal(err)
	}
	group.Go(func() {
		if err := w.Run(ctx); err != nil {
			s.t.Errorf("worker: %v", err)
		}
	})
	f(ctx)
}

// checkWaits checks that every delivery ran as often as it should have, and that
// what was to wait has waited, and not for minutes.
func (s *clocks) checkWaits(events int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	const late = 20 * time.Second // minutes are what is looked for
	again := 0
	for of, runs := range s.runs {
		var receiver string
		var id int64
		if _, err := fmt.Sscan(of, &receiver, &id); err != nil {
			s.t.Fatal(err)
		}
		switch {
		case receiver == "again" && len(runs) == 2:
			again++
			if waited := runs[1].Sub(runs[0]); waited < wait || waited > wait+late {
				s.t.Errorf("%s ran again after %s, want %s", of, waited, wait)
			}
		case receiver == "quota":
		case len(runs) != 1:
			s.t.Errorf("%s ran %d times", of, len(runs))
		}
	}
	if again != events {
		s.t.Errorf("%d deliveries ran again, want %d", again, events)
	}
	if n := s.count(`SELECT count(*) FROM waybill.lane_pause WHERE lane = 'quota'`); n != 1 {
		s.t.Errorf("%d pauses are written down, want one", n)
	}
	s.none("a delivery that was taken while its lane was paused", `SELECT d.id, taken_at, since, until FROM waybill.delivery d, waybill.lane_pause
		WHERE receiver = 'quota' AND taken_at > since + interval '1 second' AND taken_at < until`)
	s.none("a delivery of the paused lane that was settled late", `SELECT id, settled_at, due_at FROM waybill.delivery
		WHERE receiver = 'quota' AND settled_at - due_at > interval '30 seconds'`)
}
