package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// lanes declares an event and a receiver for each of two lanes, by the same name.
func lanes() *waybill.Registry {
	reg := waybill.NewRegistry()
	for _, lane := range []string{"mail", "bulk"} {
		reg.Add(waybill.Receiver{
			Key: lane + ".receiver", Event: lane, Options: waybill.Options{Lane: lane},
			Run: func(context.Context, *waybill.Delivery) error { return nil },
		})
	}
	return reg
}

func to(lane string) waybill.RawEvent { return waybill.RawEvent{Name: lane, Payload: []byte(`{}`)} }

// newLanes returns a store with a wake interval on a database of its own.
func newLanes(t *testing.T, interval time.Duration) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	_, pool := newOrders(t, 4)
	return newStore(t, postgres.Config{Pool: pool, Registry: lanes(), WakeInterval: interval}), pool
}

func fire(t *testing.T, store *postgres.Store, events ...any) {
	t.Helper()
	if err := store.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := store.FireAll(t.Context(), tx, events)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// sentry listens to the channel itself, and knows what came over it.
type sentry struct{ conn *pgx.Conn }

func newSentry(t *testing.T, pool *pgxpool.Pool) sentry {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	exec(t, conn, "LISTEN waybill_due")
	return sentry{conn}
}

// heard returns what has come since it was last asked: a notification of its own is
// behind all that was sent before it.
func (s sentry) heard(t *testing.T) (payloads []string) {
	t.Helper()
	exec(t, s.conn, "NOTIFY waybill_due, 'over'")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		n, err := s.conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == "over" {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}

func (s sentry) hears(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := s.heard(t); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: heard %q, want %q", what, got, want)
	}
}

// TestWakesAreCoalesced: a thousand commits that fire are a handful of wakes, one
// for each interval and lane at most.
func TestWakesAreCoalesced(t *testing.T) {
	t.Parallel()
	const interval, fires, clients = 500 * time.Millisecond, 1000, 4
	store, pool := newLanes(t, interval)
	s := newSentry(t, pool)
	begun := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range fires / clients {
				if err := store.InTx(t.Context(), func(tx pgx.Tx) error {
					_, err := store.Fire(t.Context(), tx, to("mail"))
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	most := 1 + int((time.Since(begun)+interval-1)/interval)
	if n := len(s.heard(t)); n < 1 || n > most {
		t.Errorf("%d commits sent %d wakes in %s, want 1 to %d", fires, n, time.Since(begun), most)
	}
}

func TestEveryWakeIsSentWithoutAnInterval(t *testing.T) {
	t.Parallel()
	store, pool := newLanes(t, -1)
	s := newSentry(t, pool)
	for range 5 {
		fire(t, store, to("mail"))
	}
	s.hears(t, "five commits", "mail", "mail", "mail", "mail", "mail")
	s.hears(t, "nothing")
}

// TestAnIntervalIsEachLanesOwn, and a wake of all stands for every lane's.
func TestAnIntervalIsEachLanesOwn(t *testing.T) {
	t.Parallel()
	store, pool := newLanes(t, time.Hour)
	s := newSentry(t, pool)
	fire(t, store, to("mail"))
	fire(t, store, to("mail"), to("bulk"))
	s.hears(t, "two lanes", "mail", "bulk")
	store.Wake(t.Context())
	store.Wake(t.Context())
	s.hears(t, "all, which no lane stands for", "")

	other := newStore(t, postgres.Config{Pool: pool, Registry: lanes(), WakeInterval: time.Hour})
	other.Wake(t.Context(), "mail", "bulk", "mail")
	s.hears(t, "another process", "mail", "bulk")
	another := newStore(t, postgres.Config{Pool: pool, Registry: lanes(), WakeInterval: time.Hour})
	another.Wake(t.Context())
	fire(t, another, to("mail"), to("bulk"))
	s.hears(t, "lanes within the interval of all", "")
}

func TestAnIntervalEnds(t *testing.T) {
	t.Parallel()
	store, pool := newLanes(t, 50*time.Millisecond)
	s := newSentry(t, pool)
	var heard []string
	eventually(t, "a second wake is sent", func() bool {
		fire(t, store, to("mail"))
		heard = append(heard, s.heard(t)...)
		return len(heard) > 1
	})
}

func TestPollOnlySendsNothing(t *testing.T) {
	t.Parallel()
	_, pool := newOrders(t, 2)
	store := newStore(t, postgres.Config{Pool: pool, Registry: lanes(), WakeInterval: -1, PollOnly: true})
	s := newSentry(t, pool)
	fire(t, store, to("mail"))
	store.Wake(t.Context())
	store.Wake(t.Context(), "mail")
	s.hears(t, "a store that only polls")
}

// embedded is a transaction as a library might wrap it, plain one of which only what
// an event is fired by is left.
type (
	embedded struct{ pgx.Tx }
	plain    struct{ tx pgx.Tx }
)

func (p plain) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.tx.Exec(ctx, sql, args...)
}

func (p plain) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.tx.Query(ctx, sql, args...)
}

// TestWakesAreOfWhatWasFired: whatever name the transaction was fired in by, the
// lanes of its receivers are woken, after the commit and only then (trap 48).
func TestWakesAreOfWhatWasFired(t *testing.T) {
	t.Parallel()
	store, pool := newLanes(t, -1)
	s := newSentry(t, pool)
	ctx := t.Context()
	mail := func(db postgres.DB) error { _, err := store.Fire(ctx, db, to("mail")); return err }
	for _, c := range []struct {
		name string
		fire func(tx pgx.Tx) error
		want []string
	}{
		{"the transaction", func(tx pgx.Tx) error { return mail(tx) }, []string{"mail"}},
		{"several events", func(tx pgx.Tx) error {
			_, err := store.FireAll(ctx, tx, []any{to("bulk"), to("mail"), to("mail")})
			return errors.Join(err, mail(tx))
		}, []string{"mail", "bulk"}},
		{"a savepoint", func(tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return mail(tx) }) }, []string{"mail"}},
		{"its connection", func(tx pgx.Tx) error { return mail(tx.Conn()) }, []string{"mail"}},
		{"a wrapper", func(tx pgx.Tx) error { return mail(embedded{tx}) }, []string{"mail"}},
		{"a wrapper that hides it", func(tx pgx.Tx) error { return mail(plain{tx}) }, []string{"mail"}},
		{"nothing", func(pgx.Tx) error { return nil }, nil},
		{"an event without receivers", func(tx pgx.Tx) error { _, err := store.Fire(ctx, tx, to("nobody")); return err }, nil},
		{"another transaction", func(pgx.Tx) error { return mail(pool) }, nil},
		{"a fire that fails", func(tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, _ = tx.Exec(ctx, "SELECT 1/0")
				if mail(tx) == nil {
					t.Error("fired in a broken transaction")
				}
				return tx.Rollback(ctx)
			})
		}, nil},
	} {
		err := store.InTx(ctx, func(tx pgx.Tx) error {
			err := c.fire(tx)
			s.hears(t, c.name+", before the commit")
			return err
		})
		if err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: %v", c.name, err)
		}
		s.hears(t, c.name, c.want...)
	}
}

// TestNobodyIsWokenForWhatIsNotCommitted (trap 48).
func TestNobodyIsWokenForWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	store, pool := newLanes(t, -1)
	exec(t, pool, `CREATE TABLE late (id bigint PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`)
	s := newSentry(t, pool)
	ctx := t.Context()
	broken := errors.New("no")
	if err := store.InTx(ctx, func(tx pgx.Tx) error {
		_, err := store.Fire(ctx, tx, to("mail"))
		return errors.Join(err, broken)
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	s.hears(t, "a roll-back")
	err := store.InTx(ctx, func(tx pgx.Tx) error {
		exec(t, tx, "INSERT INTO late VALUES (1), (1)") // found out by the commit
		_, err := store.Fire(ctx, tx, to("mail"))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "commit") {
		t.Errorf("the commit: %v", err)
	}
	s.hears(t, "a commit that failed")
	func() {
		defer func() { _ = recover() }()
		_ = store.InTx(ctx, func(tx pgx.Tx) error {
			if _, err := store.Fire(ctx, tx, to("mail")); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	s.hears(t, "a panic")
	if n := count(t, pool, "SELECT count(*) FROM waybill.event"); n != 0 {
		t.Errorf("%d events", n)
	}
	fire(t, store, to("bulk"))
	s.hears(t, "a commit after them", "bulk")
}

// TestRunTxWakesWhatItFired: what a transactional receiver fires is owed with the
// commit of its own outcome.
func TestRunTxWakesWhatItFired(t *testing.T) {
	t.Parallel()
	store, pool := newLanes(t, -1)
	fire(t, store, to("mail"))
	s := newSentry(t, pool)
	d := take(t, store, claim(t, store, 1, "mail.receiver")...)[0]
	broken := errors.New("no")
	// Those of a program over the commands fire by way of a store of their own.
	own := newStore(t, postgres.Config{Pool: pool, Registry: lanes()})
	for _, end := range []error{broken, nil} {
		_, err := store.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
			_, err := own.Fire(ctx, tx.(pgx.Tx), to("bulk"))
			return errors.Join(err, end)
		})
		if !errors.Is(err, end) {
			t.Error(err)
		}
		if end != nil {
			s.hears(t, "a run that failed")
		}
	}
	s.hears(t, "a run that landed", "bulk")
}

// TestAFailedWakeIsTriedAgain: it stands for nothing.
func TestAFailedWakeIsTriedAgain(t *testing.T) {
	t.Parallel()
	_, pool := newOrders(t, 2)
	var failing atomic.Bool
	config := pool.Config()
	config.ConnConfig.Tracer = tracer(func(ctx context.Context, sql string) context.Context {
		if !failing.Load() || !strings.Contains(sql, "pg_notify") {
			return ctx
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	})
	hindered, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hindered.Close)
	store := newStore(t, postgres.Config{Pool: hindered, Registry: lanes(), WakeInterval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	s := newSentry(t, pool)
	failing.Store(true)
	fire(t, store, to("mail"))
	s.hears(t, "a wake that fails")
	failing.Store(false)
	fire(t, store, to("mail"))
	s.hears(t, "the next one", "mail")
	fire(t, store, to("mail"))
	s.hears(t, "the one after that")
}

// TestWakesDoNotPileUp: while one cannot be sent, those who fire wait no longer than
// for one wake, and one of them stands for the others.
func TestWakesDoNotPileUp(t *testing.T) {
	t.Parallel()
	_, pool := newOrders(t, 3)
	single := newPool(t, pool.Config().ConnString(), 1)
	store := newStore(t, postgres.Config{Pool: single, Registry: lanes(), WakeInterval: -1, CallTimeout: 500 * time.Millisecond})
	conn, err := single.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { store.Wake(t.Context(), "mail") })
	}
	wg.Wait()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("50 wakes without a connection took %s", took)
	}
	conn.Release()
	s := newSentry(t, pool)
	fire(t, store, to("mail"))
	s.hears(t, "a commit after them", "mail")
}
