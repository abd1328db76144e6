package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// listener runs Listen and tells of its wakes and its end.
type listener struct {
	woken chan struct{}
	ended chan error
}

func listen(t *testing.T, store *postgres.Store) *listener {
	t.Helper()
	return listenTo(t, store, "default")
}

func listenTo(t *testing.T, store *postgres.Store, lane string) *listener {
	t.Helper()
	l := &listener{woken: make(chan struct{}, 1000), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		l.ended <- store.Listen(ctx, lane, func() { l.woken <- struct{}{} })
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	l.wake(t, "at the start")
	return l
}

func (l *listener) wake(t *testing.T, when string) {
	t.Helper()
	select {
	case <-l.woken:
	case err := <-l.ended:
		t.Fatalf("%s: Listen returned %v", when, err)
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: no wake", when)
	}
}

// Trap 48: a wake-up before the commit, for rows that are not there yet.
func TestListenHearsOtherProcesses(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	l := listen(t, store)
	other := newStore(t, postgres.Config{Pool: newPool(t, pool.Config().ConnString(), 1), Registry: orders(), WakeInterval: -1})
	for range 3 {
		if err := other.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := other.Fire(t.Context(), tx, orderPlaced{1})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		l.wake(t, "after a commit")
		if n := len(claim(t, store, 100, "mail", "stock")); n != 2 {
			t.Errorf("woken for %d rows, want 2", n)
		}
	}
	// A roll-back wakes nobody, and another schema's wake is not ours.
	if err := other.InTx(t.Context(), func(pgx.Tx) error { return errors.New("no") }); err == nil {
		t.Error("committed")
	}
	newStore(t, postgres.Config{Pool: pool, Registry: orders(), Schema: "other"}).Wake(t.Context())
	other.Wake(t.Context())
	l.wake(t, "after a plain wake")
	if n := len(l.woken); n != 0 {
		t.Errorf("%d wakes too many", n)
	}
}

func TestListenReturnsWhenItsConnectionDies(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	l := listen(t, store)
	if n := count(t, pool, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND query LIKE 'LISTEN%'`); n != 1 {
		t.Fatalf("ended %d listeners, want 1", n)
	}
	l.returnsError(t)
}

// TestListenNoticesAConnectionThatIsGone: it was reset, or the network between them
// carries nothing any more in one direction, and no end of the connection is told.
func TestListenNoticesAConnectionThatIsGone(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	for name, lose := range map[string]func(*fault.Proxy){
		"reset":                   (*fault.Proxy).Cut,
		"half-open to the server": (*fault.Proxy).HoldToServer,
		"half-open to the client": (*fault.Proxy).HoldToClient,
		"half-open both ways":     (*fault.Proxy).Hold,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, proxy := proxied(t, timeout)
			l := listen(t, store)
			lose(proxy)
			l.returnsError(t)
			proxy.Restore()
			eventually(t, "it hears again", func() bool { return store.CheckListen(t.Context()) == nil })
		})
	}
}

// TestListenWithoutAConnectionToBeProvenBy: the pool is busy for long. That is not
// taken for deafness, and what is sent is heard.
func TestListenWithoutAConnectionToBeProvenBy(t *testing.T) {
	t.Parallel()
	sender, direct := newOrders(t, 1)
	pool := newPool(t, direct.Config().ConnString(), 1)
	store := newStore(t, postgres.Config{Pool: pool, Registry: orders(), CallTimeout: 2 * time.Second})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = store.CheckListen(t.Context())
	if err == nil || errors.Is(err, waybill.ErrDeaf) {
		t.Errorf("CheckListen without a connection to ask by: %v", err)
	}
	l := listen(t, store)
	sender.Wake(t.Context())
	l.wake(t, "unproven")
	conn.Release()
	if err := store.CheckListen(t.Context()); err != nil {
		t.Error(err)
	}
}

func (l *listener) returnsError(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		l.ended <- nil
		if err == nil {
			t.Error("Listen returned without an error")
		}
		return err
	case <-time.After(20 * time.Second):
		t.Error("Listen did not notice")
		return nil
	}
}

// TestInTxDoesNotFailWithItsWake: what was committed is reported so, whatever
// becomes of the wake.
// Trap 48: what comes after the commit fails, and takes the rest with it.
func TestInTxDoesNotFailWithItsWake(t *testing.T) {
	t.Parallel()
	_, pool := newOrders(t, 1)
	config := pool.Config()
	failed := 0
	config.ConnConfig.Tracer = tracer(func(ctx context.Context, sql string) context.Context {
		if !strings.Contains(sql, "pg_notify") {
			return ctx
		}
		failed++
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	})
	deaf, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(deaf.Close)
	store := newStore(t, postgres.Config{Pool: deaf, Registry: orders()})
	if err := store.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := store.Fire(t.Context(), tx, orderPlaced{1})
		return err
	}); err != nil {
		t.Error(err)
	}
	if n := count(t, pool, "SELECT count(*) FROM waybill.event"); n != 1 || failed != 1 {
		t.Errorf("%d events, %d failed wakes, want one of each", n, failed)
	}
}

// tracer sees each statement before it is sent, and may give it another context.
type tracer func(ctx context.Context, sql string) context.Context

func (f tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return f(ctx, data.SQL)
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (f tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		ctx = f(ctx, query.SQL)
	}
	return ctx
}

func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// TestWakeGivesUp: a wake may not hold up the one who fired for long.
func TestWakeGivesUp(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 1)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	begun := time.Now()
	store.Wake(t.Context())
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a wake without a connection took %s", took)
	}
}

// proxied is a store whose server is behind a proxy.
func proxied(t *testing.T, timeout time.Duration) (*postgres.Store, *fault.Proxy) {
	t.Helper()
	target, err := url.Parse(services.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, net.JoinHostPort(target.Hostname(), target.Port()))
	migrate(t, newPool(t, target.String(), 1), "")
	target.Host = proxy.Addr()
	return newStore(t, postgres.Config{Pool: newPool(t, target.String(), 4), Registry: orders(), CallTimeout: timeout}), proxy
}

// TestEveryCallEndsOnASilentServer holds the network: connections are there, new
// ones are accepted, and nothing answers. What is in a transaction of the caller's, such
// as Fire, is bounded by the caller alone.
func TestEveryCallEndsOnASilentServer(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	store, proxy := proxied(t, timeout)
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := listen(t, store)
	message := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "x", At: 1}}
	proxy.Hold()
	ctx := t.Context()
	var wg sync.WaitGroup
	calls := map[string]func() error{
		"Check":       func() error { return store.Check(ctx) },
		"CheckListen": func() error { return store.CheckListen(ctx) },
		"Claim": func() error {
			_, err := store.Claim(ctx, waybill.ClaimRequest{By: "r", Receivers: []string{"mail"}, Limit: 1, Lease: 1})
			return err
		},
		"ClaimLapsed": func() error {
			_, err := store.ClaimLapsed(ctx, waybill.LapsedRequest{By: "r", Limit: 1, Lease: 1})
			return err
		},
		"OwedReceivers": func() error { _, err := store.OwedReceivers(ctx, nil); return err },
		"GiveBack":      func() error { _, err := store.GiveBack(ctx, []waybill.GiveBack{{Message: message}}); return err },
		"Take": func() error {
			_, err := store.Take(ctx, waybill.TakeRequest{By: "w", Messages: []waybill.Message{message}, Leases: store.Registry().Leases()})
			return err
		},
		"Look":       func() error { _, err := store.Look(ctx, []int64{1}); return err },
		"Extend":     func() error { _, err := store.Extend(ctx, []waybill.Extension{{Message: message}}); return err },
		"Ack":        func() error { _, err := store.Ack(ctx, []waybill.Ack{{Message: message}}); return err },
		"Now":        func() error { _, err := store.Now(ctx); return err },
		"Tallies":    func() error { _, err := store.Tallies(ctx); return err },
		"OwedEvents": func() error { _, err := store.OwedEvents(ctx); return err },
		"RunTx": func() error {
			_, err := store.RunTx(ctx, waybill.Ack{Message: message}, func(context.Context, any) error { return nil })
			return err
		},
		"ClaimTx": func() error {
			return store.ClaimTx(ctx, func(context.Context, any, waybill.Claimer) error { return nil })
		},
		"Progress":   func() error { _, err := store.Progress(ctx, waybill.ProgressRequest{}); return err },
		"InFlight":   func() error { _, err := store.InFlight(ctx); return err },
		"History":    func() error { _, err := store.History(ctx, waybill.HistoryRequest{Limit: 1}); return err },
		"Due":        func() error { _, err := store.Due(ctx, waybill.DueRequest{}); return err },
		"Pauses":     func() error { _, err := store.Pauses(ctx); return err },
		"PauseLane":  func() error { _, err := store.PauseLane(ctx, waybill.PauseRequest{Lane: "mail"}); return err },
		"ResumeLane": func() error { _, err := store.ResumeLane(ctx, "mail"); return err },
		"InTx":       func() error { return store.InTx(ctx, func(pgx.Tx) error { return nil }) },
		"Events": func() error {
			_, err := store.Events(ctx, waybill.EventsRequest{Name: "order.placed", Limit: 1})
			return err
		},
		"FireAlone": func() error { _, err := store.FireAlone(ctx, orderPlaced{1}); return err },
		"ClaimFired": func() error {
			_, err := store.ClaimFired(ctx, waybill.FiredRequest{By: "w", Receivers: []waybill.ReceiverLease{{Receiver: "mail", Lane: "mail"}}, Events: []int64{1}, Limit: 1, Lease: time.Minute})
			return err
		},
		"Hasten": func() error { _, err := store.Hasten(ctx, nil); return err },
		"Listen": func() error { return store.Listen(ctx, "default", func() {}) },
		"Wake":   func() error { store.Wake(ctx); return errors.New("wakes fail in silence") },
	}
	ofContext, inTheCallers := reflect.TypeFor[context.Context](), map[reflect.Type]bool{
		reflect.TypeFor[postgres.DB](): true, reflect.TypeFor[postgres.SQLTx](): true,
	}
	for method := range reflect.TypeOf(store).Methods() {
		takesContext := method.Type.NumIn() > 1 && method.Type.In(1) == ofContext
		callers := method.Type.NumIn() > 2 && inTheCallers[method.Type.In(2)]
		if calls[method.Name] == nil && takesContext && !callers && method.Name != "InSQLTx" { // which is refused: see TestASilentServerIsNotWaitedForByDrivers
			t.Errorf("%s is not tried", method.Name)
		}
	}
	for name, call := range calls {
		wg.Go(func() {
			begun := time.Now()
			if err := call(); err == nil {
				t.Errorf("%s: no error", name)
			}
			bound := 5 * timeout
			if name == "Tallies" || name == "OwedEvents" || name == "InFlight" || name == "Due" { // counts are given six times the time
				bound = 10 * timeout
			}
			if took := time.Since(begun); took > bound {
				t.Errorf("%s took %s under a timeout of %s", name, took, timeout)
			}
		})
	}
	wg.Wait()
	l.returnsError(t)
	proxy.Restore()
	eventually(t, "the store works again", func() bool { return store.Check(t.Context()) == nil })
}

// TestRunTxEndsWhenTheServerFallsSilentMeanwhile: nobody knows then whether the
// outcome landed, and the run is over all the same.
func TestRunTxEndsWhenTheServerFallsSilentMeanwhile(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	store, proxy := proxied(t, timeout)
	begun := time.Now()
	landed, err := store.RunTx(t.Context(), waybill.Ack{Message: waybill.Message{DeliveryID: 1}}, func(context.Context, any) error {
		proxy.Hold()
		return nil
	})
	if err == nil || landed {
		t.Errorf("landed %v, %v", landed, err)
	}
	if took := time.Since(begun); took > 10*timeout {
		t.Errorf("took %s under a timeout of %s", took, timeout)
	}
	proxy.Restore()
}
