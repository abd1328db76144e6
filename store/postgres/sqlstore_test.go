package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// sqlOrders is orders for a store over a *sql.DB.
func sqlOrders() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return nil }, waybill.Options{Lease: orderLease})
	postgres.OnSQLTx(reg, "stock", func(ctx context.Context, tx *sql.Tx, event orderPlaced) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO stock VALUES ($1)", event.ID)
		return err
	}, waybill.Options{Lease: orderLease})
	return reg
}

// newSQLOrders returns a store over a driver, and a pool beside it.
func newSQLOrders(t *testing.T, d sqlDriver, settings ...string) (*postgres.Store, *sql.DB, *pgxpool.Pool) {
	t.Helper()
	_, pool := newOrders(t, 3)
	db := d.open(t, pool.Config().ConnString(), 3, settings...)
	store, err := postgres.OpenDB(t.Context(), db, sqlOrders())
	if err != nil {
		t.Fatal(err)
	}
	return store, db, pool
}

func TestNewWantsOneDatabase(t *testing.T) {
	t.Parallel()
	_, pool := newOrders(t, 1)
	db := sqlDrivers[0].open(t, pool.Config().ConnString(), 1)
	for _, config := range []postgres.Config{{Registry: orders()}, {Registry: orders(), Pool: pool, DB: db}} {
		if _, err := postgres.New(config); err == nil || !strings.Contains(err.Error(), "one of Config.Pool and Config.DB") {
			t.Errorf("got %v, want an error that names both", err)
		}
	}
	if _, err := postgres.NewMigratorDB(nil, ""); err == nil {
		t.Error("a migrator without a database")
	}
}

func TestOpenDBChecksTheSchema(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		db := d.open(t, services.Postgres(t), 0)
		if _, err := postgres.OpenDB(t.Context(), db, sqlOrders()); err == nil || !strings.Contains(err.Error(), "bridge migrate") {
			t.Errorf("without a schema: got %v, want an error that says what to do", err)
		}
		migrator, err := postgres.NewMigratorDB(db, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := migrator.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		store, err := postgres.OpenDB(t.Context(), db, sqlOrders())
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Connections(); got != math.MaxInt {
			t.Errorf("%d connections of a pool without a limit", got)
		}
		db.SetMaxOpenConns(7)
		if got := store.Connections(); got != 7 || store.TxKind() != "*sql.Tx" {
			t.Errorf("%d connections, transactions of type %s; want 7 of *sql.Tx", got, store.TxKind())
		}
	})
}

// TestTheOtherTransactionIsNamed: who calls what the store has not is told what it has.
func TestTheOtherTransactionIsNamed(t *testing.T) {
	t.Parallel()
	over, _, pool := newSQLOrders(t, sqlDrivers[0])
	store, err := postgres.Open(t.Context(), pool, orders())
	if err != nil {
		t.Fatal(err)
	}
	never := errors.New("it was called")
	for want, err := range map[string]error{
		"call InSQLTx": over.InTx(t.Context(), func(pgx.Tx) error { return never }),
		"call InTx":    store.InSQLTx(t.Context(), func(*sql.Tx) error { return never }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
}

// TestStampsComeThroughDrivers: a claim's stamp is compared to the microsecond. The
// session has a time zone with a clock that is put back, and one hour is there twice.
func TestStampsComeThroughDrivers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		store, db, pool := newSQLOrders(t, d, "TimeZone", "America/New_York")
		var zone string
		if err := db.QueryRowContext(t.Context(), "SHOW TimeZone").Scan(&zone); err != nil || zone != "America/New_York" {
			t.Fatalf("the session's time zone is %s (%v)", zone, err)
		}
		for _, text := range []string{
			"2026-11-01T05:30:00.000001Z", "2026-11-01T06:30:00.000001Z", "2026-03-08T06:59:59.999999Z",
			"2026-07-31T23:59:59.123457Z", "1999-12-31T23:59:59.987653Z",
		} {
			at, err := waybill.ParseStamp(text)
			if err != nil {
				t.Fatal(err)
			}
			fire(t, newStore(t, postgres.Config{Pool: pool, Registry: orders(), PollOnly: true}), orderPlaced{1})
			message := claim(t, store, 1, "mail")[0]
			exec(t, pool, "UPDATE waybill.delivery SET claimed_at = $2::text::timestamptz WHERE id = $1", message.DeliveryID, text)
			states, err := store.Look(t.Context(), []int64{message.DeliveryID})
			if err != nil || len(states) != 1 || states[0].Claim.At != at {
				t.Fatalf("%s came back as %+v (%v)", text, states, err)
			}
			message.Claim.At = at
			for _, near := range []waybill.Stamp{at - 1, at + 1} {
				other := message
				other.Claim.At = near
				if ids, err := store.Extend(t.Context(), []waybill.Extension{{Message: other, Lease: time.Hour}}); err != nil || len(ids) != 0 {
					t.Errorf("extended under %s what is claimed at %s (%v)", near, at, err)
				}
			}
			if ids, err := store.Extend(t.Context(), []waybill.Extension{{Message: message, Lease: time.Hour}}); err != nil || len(ids) != 1 {
				t.Errorf("%s does not match itself (%v)", at, err)
			}
			if taken := take(t, store, message); len(taken) != 1 {
				t.Errorf("%s was not taken under its claim", at)
			}
		}
	})
}

// TestTextComesThroughDrivers: arrays travel as text, in which some letters mean
// something.
func TestTextComesThroughDrivers(t *testing.T) {
	t.Parallel()
	targets := []string{
		"NULL", "null", `{}`, `{a,b}`, `a"b`, `a\b`, `\`, `"`, `'`, `''; DROP TABLE stock; --`, ",", " ", "a\nb\tc", "ünïcode ✓", `\\x00`, "$1", "?",
	}
	const payload = "{ \"a\" : \"\\\"\\\\ '{NULL,}' ✓\",\n\t\"b\":1.0 }"
	overEach(t, func(t *testing.T, d sqlDriver) {
		_, _, pool := newSQLOrders(t, d)
		db := d.open(t, pool.Config().ConnString(), 2)
		reg := waybill.NewRegistry()
		reg.Add(waybill.Receiver{
			Key: "fan", Event: `ev"e\nt`, Run: func(context.Context, *waybill.Delivery) error { return nil },
			Options: waybill.Options{Targets: waybill.TargetsOf(func(context.Context, json.RawMessage) ([]string, error) { return targets, nil })},
		})
		store := newStore(t, postgres.Config{DB: db, Registry: reg})
		headers := map[string]string{"k": `v"\{},NULL`, "": "✓"}
		fired := waybill.RawEvent{Name: `ev"e\nt`, Payload: []byte(payload), Headers: headers}
		if _, err := store.FireSQL(t.Context(), db, fired); err != nil {
			t.Fatal(err)
		}
		taken := take(t, store, claim(t, store, 100, "fan")...)
		got := map[string]bool{}
		for _, delivery := range taken {
			got[delivery.Target] = true
			if string(delivery.Event.Payload) != payload || !reflect.DeepEqual(delivery.Event.Headers, headers) {
				t.Fatalf("got payload %s and headers %v", delivery.Event.Payload, delivery.Event.Headers)
			}
		}
		for _, target := range targets {
			if !got[target] {
				t.Errorf("target %q did not come through", target)
			}
		}
		if n := count(t, pool, "SELECT count(*) FROM waybill.delivery WHERE target_digest <> sha256(convert_to(target, 'UTF8'))"); len(taken) != len(targets) || n != 0 {
			t.Errorf("%d of %d rows, %d with a digest of something else", len(taken), len(targets), n)
		}
		ack := waybill.Ack{Message: waybill.Message{DeliveryID: taken[0].ID, Claim: taken[0].Claim},
			Outcome: waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: targets[4] + strings.Join(targets, "")}}
		if ids, err := store.Ack(t.Context(), []waybill.Ack{ack}); err != nil || len(ids) != 1 {
			t.Fatalf("acknowledged %v (%v)", ids, err)
		}
		var lastError string
		if err := pool.QueryRow(t.Context(), "SELECT last_error FROM waybill.delivery WHERE id = $1", taken[0].ID).Scan(&lastError); err != nil || lastError != ack.Outcome.Error {
			t.Errorf("the error is kept as %q (%v)", lastError, err)
		}
	})
}

// TestConflictsOverDriversAreTriedAgain: whatever the driver's type of error.
func TestConflictsOverDriversAreTriedAgain(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		store, _, pool := newSQLOrders(t, d, "default_transaction_isolation", "serializable")
		fire(t, newStore(t, postgres.Config{Pool: pool, Registry: orders(), PollOnly: true}), orderPlaced{1})
		message := claim(t, store, 1, "mail")[0]
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		exec(t, tx, "UPDATE waybill.delivery SET last_error = 'touched' WHERE status = 'claimed'")
		done := make(chan error, 1)
		go func() {
			ids, err := store.Extend(t.Context(), []waybill.Extension{{Message: message, Lease: time.Hour}})
			if err == nil && len(ids) != 1 {
				err = fmt.Errorf("extended %v", ids)
			}
			done <- err
		}()
		eventually(t, "the extension waits for the row", func() bool {
			return count(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
		})
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestASilentServerIsNotWaitedForByDrivers: one asks such a server to cancel, and waits
// for what comes of it.
func TestASilentServerIsNotWaitedForByDrivers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		_, pool := newOrders(t, 3)
		address, err := url.Parse(pool.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		proxy := fault.NewProxy(t, address.Host)
		address.Host = proxy.Addr()
		const timeout = 500 * time.Millisecond
		store := newStore(t, postgres.Config{DB: d.open(t, address.String(), 3), Registry: sqlOrders(), CallTimeout: timeout, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(proxy.Cut) // before the pool is closed, which waits for what goes on
		fire(t, newStore(t, postgres.Config{Pool: pool, Registry: orders(), PollOnly: true}), orderPlaced{1}, orderPlaced{2})
		if err := store.Check(t.Context()); err != nil { // connected
			t.Fatal(err)
		}
		bounded := func(what string, call func() error) {
			t.Helper()
			begun := time.Now()
			if err := call(); err == nil {
				t.Errorf("%s: no error over a network that carries nothing", what)
			}
			if took := time.Since(begun); took > 3*timeout+2*time.Second {
				t.Errorf("%s took %s, whose time is %s", what, took, timeout)
			}
		}
		bounded("a transaction that is cut off", func() error {
			return store.ClaimTx(t.Context(), func(ctx context.Context, _ any, claims waybill.Claimer) error {
				rows, err := claims.Claim(ctx, mail(100))
				if len(rows) != 2 || len(lockable(t, pool)) != 2 {
					t.Errorf("%d rows are claimed and %d free, want 2 of each", len(rows), len(lockable(t, pool)))
				}
				proxy.Hold()
				return err
			})
		})
		eventually(t, "the server has given its rows up", func() bool { return len(lockable(t, pool)) == 4 })
		bounded("a call", func() error { _, err := store.Claim(t.Context(), mail(1)); return err })
		bounded("a receiver's transaction", func() error {
			_, err := store.RunTx(t.Context(), waybill.Ack{}, func(context.Context, any) error { return nil })
			return err
		})
	})
}

// TestRunTxOverDrivers: what the receiver writes, and its outcome, are one.
func TestRunTxOverDrivers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		store, db, pool := newSQLOrders(t, d)
		receiver, _ := store.Registry().Receiver("stock")
		run := func(id int, then error) (bool, error) {
			t.Helper()
			if err := store.InSQLTx(t.Context(), func(tx *sql.Tx) error {
				_, err := store.FireSQL(t.Context(), tx, orderPlaced{id})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			delivery := take(t, store, claim(t, store, 1, "stock")...)[0]
			return store.RunTx(t.Context(), succeeded(delivery), func(ctx context.Context, tx any) error {
				return errors.Join(receiver.RunTx(ctx, tx, delivery), then)
			})
		}
		if landed, err := run(1, nil); err != nil || !landed {
			t.Errorf("landed: %t (%v)", landed, err)
		}
		broken := errors.New("broken")
		if landed, err := run(2, broken); !errors.Is(err, broken) || landed {
			t.Errorf("landed: %t (%v)", landed, err)
		}
		if n := count(t, pool, "SELECT sum(id) FROM stock"); n != 1 {
			t.Errorf("the stock says %d, want what was acknowledged", n)
		}
		// What is bounded by the run alone is written after the end of its context too.
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := store.FireSQL(ctx, db, orderPlaced{3}); err != nil {
			t.Fatal(err)
		}
		delivery := take(t, store, claim(t, store, 1, "stock")...)[0]
		landed, err := store.RunTx(ctx, succeeded(delivery), func(ctx context.Context, tx any) error {
			defer cancel()
			return receiver.RunTx(ctx, tx, delivery)
		})
		if err != nil || !landed {
			t.Errorf("an outcome after the end of the run's context landed: %t (%v)", landed, err)
		}
	})
}

// embedding is a transaction with something beside it, which does not know our
// parameters, as bun's.
type embedding struct {
	*sql.Tx
	_ string
}

func (e embedding) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errors.New("there is no parameter $1")
}

// hidden does not tell which transaction it is.
type hidden struct{ postgres.SQLTx }

// TestWakesOfWhatIsFiredOverDrivers is TestWakesAreOfWhatWasFired for database/sql.
func TestWakesOfWhatIsFiredOverDrivers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		_, pool := newLanes(t, -1)
		// Other tests fire by wrappers too, in the schema that is the default.
		schema := "wakes_" + d.name
		migrate(t, pool, schema)
		db := d.open(t, pool.Config().ConnString(), 3)
		store := newStore(t, postgres.Config{DB: db, Registry: lanes(), Schema: schema, WakeInterval: -1})
		pooled := newStore(t, postgres.Config{Pool: pool, Registry: lanes(), Schema: schema, WakeInterval: -1})
		s := newSentry(t, pool)
		exec(t, s.conn, "LISTEN "+schema+"_due")
		within := func(what string, f func(ctx context.Context, tx *sql.Tx) error, want ...string) {
			t.Helper()
			if err := store.InSQLTx(t.Context(), func(tx *sql.Tx) error { return f(t.Context(), tx) }); err != nil {
				t.Fatal(err)
			}
			s.hears(t, what, want...)
		}
		within("nothing", func(context.Context, *sql.Tx) error { return nil })
		within("one lane", func(ctx context.Context, tx *sql.Tx) error {
			_, err := store.FireSQL(ctx, tx, to("mail"))
			return err
		}, "mail")
		within("both lanes, of a wrapper", func(ctx context.Context, tx *sql.Tx) error {
			_, err := store.FireAllSQL(ctx, hidden{tx}, []any{to("mail"), to("bulk")})
			return err
		}, "mail", "bulk")
		within("one lane, of what embeds the transaction", func(ctx context.Context, tx *sql.Tx) error {
			_, err := store.FireSQL(ctx, &embedding{Tx: tx}, to("mail"))
			return err
		}, "mail")
		within("another store's", func(ctx context.Context, tx *sql.Tx) error {
			_, err := pooled.FireSQL(ctx, tx, to("mail"))
			return err
		}, "mail")
		within("what is beside the transaction", func(ctx context.Context, _ *sql.Tx) error {
			_, err := store.FireSQL(ctx, db, to("mail"))
			return err
		})
		if _, err := store.RunTx(t.Context(), waybill.Ack{Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}}, func(ctx context.Context, tx any) error {
			_, err := store.FireSQL(ctx, tx.(*sql.Tx), to("mail"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s.hears(t, "a run that did not land")
		store.Wake(t.Context(), "bulk")
		s.hears(t, "a wake", "bulk")
	})
}

// TestHearingOverDrivers: a relay over a driver that hears nothing is told so, and what
// to do.
func TestHearingOverDrivers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		store, _, _ := newSQLOrders(t, d)
		err := store.CheckListen(t.Context())
		if deaf := errors.Is(err, waybill.ErrDeaf); deaf != d.deaf || !deaf && err != nil {
			t.Errorf("got %v; deaf should be %t", err, d.deaf)
		}
		if d.deaf && !strings.Contains(err.Error(), "pgx/v5/stdlib") {
			t.Errorf("%v does not say what to do", err)
		}
	})
}
