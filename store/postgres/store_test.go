package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

type orderPlaced struct{ ID int }

const orderLease = time.Minute

// orders declares one event, with a plain and a transactional receiver that
// writes the order's number.
func orders() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return nil }, waybill.Options{Lease: orderLease})
	postgres.OnTx(reg, "stock", func(ctx context.Context, tx pgx.Tx, event orderPlaced) error {
		_, err := tx.Exec(ctx, "INSERT INTO stock VALUES ($1)", event.ID)
		return err
	}, waybill.Options{Lease: orderLease})
	return reg
}

// newOrders returns a store in the default schema of a database of its own.
func newOrders(t *testing.T, conns int32) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool := newPool(t, services.Postgres(t), conns)
	migrate(t, pool, "")
	exec(t, pool, "CREATE TABLE stock (id bigint)")
	store, err := postgres.Open(t.Context(), pool, orders())
	if err != nil {
		t.Fatal(err)
	}
	return store, pool
}

func exec(t *testing.T, db postgres.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func claim(t *testing.T, store *postgres.Store, limit int, receivers ...string) []waybill.Message {
	t.Helper()
	rows, err := store.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: receivers, Limit: limit, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	messages := make([]waybill.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

func take(t *testing.T, store *postgres.Store, messages ...waybill.Message) []*waybill.Delivery {
	t.Helper()
	taken, err := store.Take(t.Context(), waybill.TakeRequest{By: "worker", Messages: messages, Leases: store.Registry().Leases()})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func succeeded(d *waybill.Delivery) waybill.Ack {
	return waybill.Ack{
		Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim},
		Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	pool := newPool(t, "postgres://nobody@127.0.0.1:1/none", 1)
	broken := waybill.NewRegistry()
	waybill.Declare[orderPlaced](broken, "", waybill.EventOptions{})
	for _, c := range []struct {
		says   string
		config postgres.Config
	}{
		{"Pool", postgres.Config{Registry: orders()}},
		{"Registry", postgres.Config{Pool: pool}},
		{"event name", postgres.Config{Pool: pool, Registry: broken}},
		{"schema", postgres.Config{Pool: pool, Registry: orders(), Schema: `a"; DROP SCHEMA b`}},
		{"schema", postgres.Config{Pool: pool, Registry: orders(), Schema: "Upper"}},
		{"schema", postgres.Config{Pool: pool, Registry: orders(), Schema: "pg_waybill"}},
		{"schema", postgres.Config{Pool: pool, Registry: orders(), Schema: strings.Repeat("s", 51)}},
		{"CallTimeout", postgres.Config{Pool: pool, Registry: orders(), CallTimeout: -1}},
	} {
		if _, err := postgres.New(c.config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want an error that says %q", err, c.says)
		}
	}
	if _, err := postgres.NewMigrator(nil, ""); err == nil {
		t.Error("a migrator without a pool")
	}
	if _, err := postgres.NewMigrator(pool, "No"); err == nil {
		t.Error("a migrator with a schema that has no good name")
	}
}

// Trap 75: a check of tables that are not there yet.
func TestOpenTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	pool := newPool(t, services.Postgres(t), 2)
	if _, err := postgres.Open(t.Context(), pool, orders()); err == nil || !strings.Contains(err.Error(), "`bridge migrate`") {
		t.Errorf("without a schema: got %v", err)
	}
	// A schema that nobody migrated is as good as none.
	exec(t, pool, "CREATE SCHEMA waybill")
	if _, err := postgres.Open(t.Context(), pool, orders()); err == nil || !strings.Contains(err.Error(), "`bridge migrate`") {
		t.Errorf("without tables: got %v", err)
	}
	migrate(t, pool, "")
	if _, err := postgres.Open(t.Context(), pool, orders()); err != nil {
		t.Errorf("after the migration: %v", err)
	}
	nowhere := newPool(t, "postgres://nobody:hush-hush@127.0.0.1:1/none", 1)
	if _, err := postgres.Open(t.Context(), nowhere, orders()); err == nil || strings.Contains(err.Error(), "hush-hush") {
		t.Errorf("without a server: got %v, want an error without the password", err)
	}
}

// TestFireTakesAnyConnection fires in a transaction, on a connection and on a
// pool, whatever their search_path is.
func TestFireTakesAnyConnection(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	ctx := t.Context()
	if _, err := store.Fire(ctx, pool, orderPlaced{1}); err != nil {
		t.Errorf("on the pool: %v", err)
	}
	conn, err := pgx.Connect(ctx, pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	exec(t, conn, "SET search_path TO pg_catalog")
	if _, err := store.Fire(ctx, conn, &orderPlaced{2}); err != nil {
		t.Errorf("on a connection: %v", err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := store.FireAll(ctx, tx, []any{orderPlaced{3}, orderPlaced{4}})
	if err != nil || len(ids) != 2 || ids[0] >= ids[1] {
		t.Errorf("in a transaction: ids %v, %v", ids, err)
	}
	if n := count(t, pool, "SELECT count(*) FROM waybill.delivery"); n != 4 {
		t.Errorf("%d rows before the commit, want 4", n)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "SELECT count(*) FROM waybill.delivery"); n != 8 {
		t.Errorf("%d rows after the commit, want 8", n)
	}
}

// TestAFailedFireSpoilsTheTransaction: the application's change must not be
// committed without what it owes.
func TestAFailedFireSpoilsTheTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	err := store.InTx(t.Context(), func(tx pgx.Tx) error {
		exec(t, tx, "INSERT INTO stock VALUES (1)")
		exec(t, tx, "ALTER TABLE waybill.event RENAME TO gone")
		_, err := store.Fire(t.Context(), tx, orderPlaced{1})
		if err == nil {
			t.Error("fired without a table")
		}
		return nil // it takes no notice
	})
	if err == nil {
		t.Error("committed")
	}
	if n := count(t, pool, "SELECT count(*) FROM stock"); n != 0 {
		t.Errorf("%d rows of a change that was not fired for", n)
	}
}

// TestClaimsPassOverLockedRows: a row under another relay's claim is nobody's to
// wait for.
// Trap 81: locks that one connection holds against itself.
func TestClaimsPassOverLockedRows(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 3)
	for range 4 {
		if _, err := store.Fire(t.Context(), pool, orderPlaced{1}); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	exec(t, tx, "SELECT 1 FROM waybill.delivery WHERE event_id = (SELECT min(id) FROM waybill.event) FOR UPDATE")
	if got := claim(t, store, 1, "mail", "stock"); len(got) != 1 {
		t.Errorf("claimed %d rows of two receivers beside locked ones", len(got))
	}
	if got := claim(t, store, 100, "mail"); len(got)+len(claim(t, store, 100, "stock")) != 5 {
		t.Errorf("claimed %d rows of one receiver beside a locked one", len(got))
	}
	store.SetClockOffset(time.Hour)
	exec(t, pool, "UPDATE waybill.delivery SET status = 'claimed', lease_expires_at = now() WHERE status = 'claimed'")
	lapsed, err := store.ClaimLapsed(t.Context(), waybill.LapsedRequest{By: "relay", Limit: 100, Lease: time.Minute})
	if err != nil || len(lapsed) != 6 {
		t.Errorf("claimed %d lapsed rows: %v", len(lapsed), err)
	}
}

// TestOneConnectionIsEnough: no call holds a connection while it waits for another.
func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 1)
	if n := store.Connections(); n != 1 {
		t.Errorf("the store has %d connections", n)
	}
	const fired = 20
	workThrough(t, store, fired)
	if n := count(t, pool, "SELECT count(DISTINCT id) FROM stock"); n != fired {
		t.Errorf("%d orders in stock, want %d", n, fired)
	}
}

// workThrough fires orders and brings them to their ends, with many clients at each
// step, and others that extend leases and look around at the same time.
func workThrough(t *testing.T, store *postgres.Store, fired int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range fired {
		wg.Go(func() {
			if err := store.InTx(t.Context(), func(tx pgx.Tx) error {
				_, err := store.Fire(t.Context(), tx, orderPlaced{i})
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	claimed := make(chan waybill.Message, 2*fired)
	for range 8 {
		wg.Go(func() {
			if err := store.ClaimTx(t.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
				rows, err := claims.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: []string{"mail", "stock"}, Limit: 5, Lease: time.Minute})
				for _, row := range rows {
					claimed <- row.Message
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := store.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: []string{"nobody"}, Limit: 5, Lease: time.Minute}); err != nil {
				t.Error(err)
			}
			if _, err := store.OwedReceivers(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(claimed)
	var messages []waybill.Message
	for message := range claimed {
		messages = append(messages, message)
	}
	var landed atomic.Int64
	for message := range slices.Values(messages) {
		wg.Go(func() {
			for _, d := range take(t, store, message) {
				held, err := store.Extend(t.Context(), []waybill.Extension{{Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim}, Lease: time.Minute}})
				if err != nil || len(held) != 1 {
					t.Errorf("delivery %d: extended %v, %v", d.ID, held, err)
				}
				receiver, _ := store.Registry().Receiver(d.Receiver)
				if !receiver.Transactional() {
					ids, err := store.Ack(t.Context(), []waybill.Ack{succeeded(d)})
					if err != nil {
						t.Error(err)
					}
					landed.Add(int64(len(ids)))
					continue
				}
				ok, err := store.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
					return receiver.Call(ctx, tx, d)
				})
				if err != nil || !ok {
					t.Errorf("delivery %d: landed %v, %v", d.ID, ok, err)
				}
				landed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := landed.Load(); n != int64(2*fired) {
		t.Errorf("%d outcomes landed, want %d", n, 2*fired)
	}
}

// TestRunTxLosesItsClaimMeanwhile: the row is claimed anew while the receiver
// runs, and what it wrote is undone.
// Traps 7 and 81: a claim that is lost before the run, and not in it, shows nothing.
func TestRunTxLosesItsClaimMeanwhile(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 3)
	if _, err := store.Fire(t.Context(), pool, orderPlaced{1}); err != nil {
		t.Fatal(err)
	}
	d := take(t, store, claim(t, store, 1, "stock")...)[0]
	receiver, _ := store.Registry().Receiver("stock")
	landed, err := store.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
		if err := receiver.Call(ctx, tx, d); err != nil {
			return err
		}
		store.SetClockOffset(time.Hour)
		lapsed, err := store.ClaimLapsed(ctx, waybill.LapsedRequest{By: "relay", Limit: 1, Lease: time.Minute})
		if len(lapsed) != 1 {
			err = errors.Join(err, fmt.Errorf("reclaimed %d rows", len(lapsed)))
		}
		return err
	})
	if err != nil || landed {
		t.Errorf("landed %v, %v", landed, err)
	}
	if n := count(t, pool, "SELECT count(*) FROM stock"); n != 0 {
		t.Errorf("%d effects of a run that lost its row", n)
	}
}

// TestRunTxWithABrokenTransaction: a receiver that swallows the error of a
// statement cannot be acknowledged in what is left of its transaction.
func TestRunTxWithABrokenTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 2)
	if _, err := store.Fire(t.Context(), pool, orderPlaced{1}); err != nil {
		t.Fatal(err)
	}
	d := take(t, store, claim(t, store, 1, "stock")...)[0]
	landed, err := store.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
		_, _ = tx.(pgx.Tx).Exec(ctx, "SELECT 1/0")
		return nil
	})
	if err == nil || landed {
		t.Errorf("landed %v, %v", landed, err)
	}
	if n := count(t, pool, "SELECT count(*) FROM waybill.delivery WHERE status = 'succeeded'"); n != 0 {
		t.Errorf("%d rows succeeded", n)
	}
}

// TestConflictsAreTriedAgain makes one of the two conflicts there are.
func TestConflictsAreTriedAgain(t *testing.T) {
	t.Parallel()
	pool := newPool(t, services.Postgres(t), 6)
	migrate(t, pool, "")
	strict := pool.Config()
	strict.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	serializable, err := pgxpool.NewWithConfig(t.Context(), strict)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serializable.Close)
	store := newStore(t, postgres.Config{Pool: serializable, Registry: orders(), Logger: slog.New(slog.DiscardHandler)})
	for range 5 {
		if _, err := store.Fire(t.Context(), pool, orderPlaced{1}); err != nil {
			t.Fatal(err)
		}
	}
	messages := claim(t, store, 100, "mail")
	// An update of the rows commits while the store waits for it: its snapshot is
	// too old then, and only a second try can succeed.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "UPDATE waybill.delivery SET last_error = 'touched'")
	done := make(chan error, 1)
	go func() {
		held, err := store.Extend(t.Context(), []waybill.Extension{{Message: messages[0], Lease: time.Hour}, {Message: messages[1], Lease: time.Hour}})
		if err == nil && len(held) != 2 {
			err = fmt.Errorf("extended %d rows", len(held))
		}
		done <- err
	}()
	eventually(t, "the store waits for the row", func() bool {
		return count(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
