package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// stockTaken returns a delivery of the transactional receiver, as its worker holds it.
func stockTaken(t *testing.T, store *postgres.Store, pool *pgxpool.Pool) *waybill.Delivery {
	t.Helper()
	if _, err := store.Fire(t.Context(), pool, orderPlaced{1}); err != nil {
		t.Fatal(err)
	}
	taken := take(t, store, claim(t, store, 1, "stock")...)
	if len(taken) != 1 {
		t.Fatalf("took %d rows, want 1", len(taken))
	}
	return taken[0]
}

// TestHeartbeatBesideATransaction: Trap 11, a lease that is extended inside the
// transaction of the acknowledgement is extended for nobody before it commits. Here it
// is extended beside it: others see it, and the acknowledgement finds its claim.
func TestHeartbeatBesideATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 3)
	d := stockTaken(t, store, pool)
	message := waybill.Message{DeliveryID: d.ID, Claim: d.Claim}
	landed, err := store.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
		if _, err := tx.(pgx.Tx).Exec(ctx, "INSERT INTO stock VALUES (1)"); err != nil {
			return err
		}
		held, err := store.Extend(ctx, []waybill.Extension{{Message: message, Lease: time.Hour}})
		if err != nil || len(held) != 1 {
			return errors.Join(err, errors.New("not extended"))
		}
		store.SetClockOffset(30 * time.Minute) // long past the lease that it had
		defer store.SetClockOffset(0)
		lapsed, err := store.ClaimLapsed(ctx, waybill.LapsedRequest{By: "relay", Limit: 10, Lease: time.Minute})
		if len(lapsed) != 0 {
			t.Errorf("%d rows were claimed anew in mid-run", len(lapsed))
		}
		return err
	})
	if err != nil || !landed {
		t.Errorf("landed %t, %v", landed, err)
	}
	if n := count(t, pool, "SELECT count(*) FROM stock"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// TestRowsThatFailCostNoConnection: Trap 44, a connection that is closed for whatever
// error there was, is made anew for each row. Only one that is of no use is replaced.
func TestRowsThatFailCostNoConnection(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 1)
	connection := func() (pid int) { return count(t, pool, "SELECT pg_backend_pid()") }
	before := connection()
	broken := errors.New("out of stock")
	for range 5 {
		d := stockTaken(t, store, pool)
		lost := succeeded(d)
		lost.Claim.At--
		for name, run := range map[string]func(ctx context.Context, tx any) error{
			"an error of the receiver":       func(context.Context, any) error { return broken },
			"an error of one statement":      func(ctx context.Context, tx any) error { _, err := tx.(pgx.Tx).Exec(ctx, "SELECT 1/0"); return err },
			"an error that nobody looked at": func(ctx context.Context, tx any) error { _, _ = tx.(pgx.Tx).Exec(ctx, "SELECT 1/0"); return nil },
			"a claim that is lost":           func(context.Context, any) error { return nil },
		} {
			if landed, _ := store.RunTx(t.Context(), lost, run); landed {
				t.Errorf("%s: it landed", name)
			}
		}
		if ids, err := store.Ack(t.Context(), []waybill.Ack{lost}); err != nil || len(ids) != 0 {
			t.Errorf("acknowledged %v, %v", ids, err)
		}
	}
	if after := connection(); after != before {
		t.Errorf("connection %d was replaced by %d", before, after)
	}
	// One that the server has ended is replaced, for one error at most.
	exec(t, newPool(t, pool.Config().ConnString(), 1), "SELECT pg_terminate_backend($1)", before)
	eventually(t, "the store works again", func() bool { return store.Check(t.Context()) == nil })
	if after := connection(); after == before {
		t.Error("the connection that was ended is still there")
	}
}

// TestServerEndsAnIdleTransaction: Trap 80, a server that lets no transaction idle ends
// that of a receiver which calls out in it. Nothing of the run is left then, the store
// goes on, and the failure can be recorded under the run's claim.
func TestServerEndsAnIdleTransaction(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t)
	admin := newPool(t, url, 1)
	migrate(t, admin, "")
	exec(t, admin, "CREATE TABLE stock (id bigint)")
	config := admin.Config()
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "100"
	strict, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(strict.Close)
	store := newStore(t, postgres.Config{Pool: strict, Registry: orders()})
	d := stockTaken(t, store, strict)
	landed, err := store.RunTx(t.Context(), succeeded(d), func(ctx context.Context, tx any) error {
		if _, err := tx.(pgx.Tx).Exec(ctx, "INSERT INTO stock VALUES (1)"); err != nil {
			return err
		}
		eventually(t, "the server ends the transaction", func() bool {
			return count(t, admin, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'") == 0
		})
		return nil
	})
	if err == nil || landed {
		t.Errorf("landed %t, %v", landed, err)
	}
	if n := count(t, admin, "SELECT count(*) FROM stock"); n != 0 {
		t.Errorf("%d effects of a run whose transaction was ended", n)
	}
	failed := succeeded(d)
	failed.Outcome = waybill.Outcome{Status: waybill.Failed, Attempted: true, Error: "the transaction was ended"}
	if ids, err := store.Ack(t.Context(), []waybill.Ack{failed}); err != nil || !slices.Equal(ids, []int64{d.ID}) {
		t.Errorf("acknowledged %v, %v; want the failure recorded", ids, err)
	}
}
