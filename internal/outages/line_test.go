package outages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker"
)

const (
	eventName = "thing.happened"
	slots     = 8
	poll      = 50 * time.Millisecond
)

// queue is both ends of a queue, and what is in between.
type queue interface {
	waybill.TaskBackend
	waybill.Consumer
	waybill.BacklogReader
}

// line is deliveries under way: a database, and what takes them from it to the
// receiver.
type line struct {
	t     *testing.T
	lease time.Duration
	pool  *pgxpool.Pool   // straight to the database
	app   *postgres.Store // the application's, straight to the database
	gate  gate            // before the receiver
	runs  atomic.Int64

	windowOff bool // of relays that are started
}

// newLine makes the tables in the database at url, where each success is noted by
// the database itself, whoever brings it about.
func newLine(t *testing.T, url string, lease time.Duration) *line {
	t.Helper()
	l := &line{t: t, lease: lease, pool: connect(t, url)}
	migrator, err := postgres.NewMigrator(l.pool, "")
	if err == nil {
		_, err = migrator.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	l.exec(`CREATE SCHEMA app;
		CREATE TABLE app.success (delivery_id bigint NOT NULL);
		CREATE FUNCTION app.note_success() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO app.success VALUES (NEW.id); RETURN NULL;
		END $$;
		CREATE TRIGGER success AFTER UPDATE ON waybill.delivery FOR EACH ROW
			WHEN (NEW.status = 'succeeded') EXECUTE FUNCTION app.note_success();`)
	l.app = l.open(l.pool)
	return l
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 6
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// open opens a store with the receiver.
func (l *line) open(pool *pgxpool.Pool) *postgres.Store {
	l.t.Helper()
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: "receiver", Event: eventName, Options: waybill.Options{Lease: l.lease, MaxAttempts: 1}, Run: l.receive})
	store, err := postgres.New(postgres.Config{
		Pool: pool, Registry: reg, CallTimeout: 2 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return store
}

// receive is the receiver. One attempt is all it has: an outage must not spend it.
func (l *line) receive(ctx context.Context, _ *waybill.Delivery) error {
	l.runs.Add(1)
	return l.gate.pass(ctx)
}

// end is a relay or a worker that runs.
type end struct {
	stop     func()
	takes    atomic.Int64 // of a worker
	refusals atomic.Int64 // of a worker: copies that their rows refused
}

// relay runs a relay with a store of its own.
func (l *line) relay(storeURL string, queue waybill.TaskBackend) *end {
	l.t.Helper()
	r, err := relay.New(relay.Config{
		Store: l.open(connect(l.t, storeURL)), Backend: queue, Poll: poll, WindowOff: l.windowOff, StandardLease: l.lease, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return l.run("relay", r.Run, &end{})
}

// work runs a worker with a store of its own.
func (l *line) work(storeURL string, queue waybill.Consumer) *end {
	l.t.Helper()
	e := &end{}
	w, err := worker.New(worker.Config{
		Store: l.open(connect(l.t, storeURL)), Backend: queue, Slots: slots, Drain: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Observer: func(seen waybill.Observation) {
			switch seen.Kind {
			case waybill.ObservedTake:
				e.takes.Add(1)
			case waybill.ObservedRefusal:
				e.refusals.Add(1)
			}
		},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return l.run("worker", w.Run, e)
}

func (l *line) run(name string, run func(context.Context) error, e *end) *end {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			l.t.Errorf("the %s ended by itself: %v", name, err)
		}
	})
	e.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	l.t.Cleanup(e.stop)
	return e
}

// fire fires n events, as long as it takes: an application, too, waits for its
// database.
func (l *line) fire(n int) {
	l.t.Helper()
	for n > 0 {
		batch := min(n, 100)
		l.await("the events are fired", func() (bool, string) {
			err := l.tryFire(batch)
			return err == nil, fmt.Sprint(err)
		})
		n -= batch
	}
}

// tryFire fires n events in one transaction.
func (l *line) tryFire(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: eventName, Payload: []byte(`{}`)}
	}
	return l.app.InTx(ctx, func(tx pgx.Tx) error {
		_, err := l.app.FireAll(ctx, tx, events)
		return err
	})
}

// settled waits until every delivery has succeeded, and checks that none did twice.
func (l *line) settled() {
	l.t.Helper()
	l.await("every delivery is settled", func() (bool, string) {
		n, err := l.count(`SELECT count(*) FROM waybill.delivery WHERE status IN ('pending', 'claimed', 'failed')`)
		return err == nil && n == 0, fmt.Sprintf("%d are owed (%v)", n, err)
	})
	for what, sql := range map[string]string{
		"deliveries that settled otherwise": `SELECT count(*) FROM waybill.delivery WHERE status <> 'succeeded'`,
		"deliveries that did not succeed exactly once": `SELECT count(*) FROM (
			SELECT d.id FROM waybill.delivery d LEFT JOIN app.success s ON s.delivery_id = d.id
			 GROUP BY d.id HAVING count(s.delivery_id) <> 1) AS wrong`,
		"deliveries whose attempts are not one": `SELECT count(*) FROM waybill.delivery WHERE attempts <> 1`,
	} {
		if n, err := l.count(sql); err != nil || n > 0 {
			l.t.Errorf("%d %s (%v)", n, what, err)
		}
	}
}

// waiting returns how many rows are handed off and not taken.
func (l *line) waiting() (int64, error) {
	return l.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'claimed' AND handed_off_at IS NOT NULL AND taken_at IS NULL`)
}

func (l *line) count(sql string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	err = l.pool.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

func (l *line) exec(sql string) {
	l.t.Helper()
	if _, err := l.pool.Exec(l.t.Context(), sql); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// patience is ample on a busy machine, and many leases long.
func (l *line) patience() time.Duration { return time.Minute + 4*l.lease }

func (l *line) await(what string, done func() (bool, string)) {
	l.t.Helper()
	for deadline := time.Now().Add(l.patience()); ; time.Sleep(10 * time.Millisecond) {
		ok, state := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: not within %s: %s", what, l.patience(), state)
		}
	}
}

// gate lets runs through while it is open, which it is at first.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed == nil {
		return nil
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return errors.New("the gate was closed for longer than the lease")
	}
}
