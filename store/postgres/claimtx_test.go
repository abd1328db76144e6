package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/store/postgres"
)

func mail(limit int) waybill.ClaimRequest {
	return waybill.ClaimRequest{By: "relay", Receivers: []string{"mail"}, Limit: limit, Lease: time.Minute}
}

// fireOrders fires n orders.
func fireOrders(t *testing.T, store *postgres.Store, pool *pgxpool.Pool, n int) {
	t.Helper()
	events := make([]any, n)
	for i := range events {
		events[i] = orderPlaced{i}
	}
	if _, err := store.FireAll(t.Context(), pool, events); err != nil {
		t.Fatal(err)
	}
}

// TestClaimTxIsPassedOver: others claim what is left, at once, while it goes on.
func TestClaimTxIsPassedOver(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 3)
	fireOrders(t, store, pool, 5)
	err := store.ClaimTx(t.Context(), func(ctx context.Context, _ any, claims waybill.Claimer) error {
		rows, err := claims.Claim(ctx, mail(2))
		if err != nil || len(rows) != 2 {
			t.Errorf("claimed %d rows: %v", len(rows), err)
		}
		if others := claim(t, store, 100, "mail"); len(others) != 3 {
			t.Errorf("another relay claimed %d rows, want the 3 that are left", len(others))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestClaimTxIsTriedAgainAfterAConflict: a row that was claimed changes while the
// transaction waits for it, whose snapshot is too old then.
func TestClaimTxIsTriedAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 6)
	fireOrders(t, store, pool, 5)
	strict := pool.Config()
	strict.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	serializable, err := pgxpool.NewWithConfig(t.Context(), strict)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serializable.Close)
	store = newStore(t, postgres.Config{Pool: serializable, Registry: orders(), Logger: slog.New(slog.DiscardHandler)})
	held := claim(t, store, 2, "mail")

	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	exec(t, tx, "UPDATE waybill.delivery SET last_error = 'touched' WHERE status = 'claimed'")
	tries := 0
	done := make(chan error, 1)
	go func() {
		done <- store.ClaimTx(t.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
			tries++
			if _, err := tx.(pgx.Tx).Exec(ctx, "INSERT INTO stock VALUES ($1)", tries); err != nil {
				return err
			}
			rows, err := claims.Claim(ctx, mail(100))
			if err != nil {
				return err
			}
			ids, err := claims.Extend(ctx, []waybill.Extension{{Message: held[0], Lease: time.Hour}, {Message: held[1], Lease: time.Hour}})
			if err == nil && (len(ids) != 2 || len(rows) != 3) {
				err = fmt.Errorf("extended %d rows and claimed %d", len(ids), len(rows))
			}
			return err
		})
	}()
	eventually(t, "the transaction waits for the row", func() bool {
		return count(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if written := count(t, pool, "SELECT count(*) FROM stock"); tries < 2 || written != 1 {
		t.Errorf("%d tries wrote %d rows, want several tries and what the last one wrote", tries, written)
	}
}

// TestClaimTxGivesUpOnConflicts: what fails for ever is not tried for ever.
func TestClaimTxGivesUpOnConflicts(t *testing.T) {
	t.Parallel()
	store, _ := newOrders(t, 2)
	tries := 0
	err := store.ClaimTx(t.Context(), func(ctx context.Context, tx any, _ waybill.Claimer) error {
		tries++
		_, err := tx.(pgx.Tx).Exec(ctx, "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
		return err
	})
	if err == nil || tries != 5 {
		t.Errorf("%d tries, %v; want 5 and the conflict", tries, err)
	}
}

// TestAnExtensionCountsFromItsOwnTime, and not from the begin of the transaction that a
// slow claim is part of: that would cut short the lease it is to save.
func TestAnExtensionCountsFromItsOwnTime(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 1)
	fireOrders(t, store, pool, 1)
	const slow, lease = "0.2", time.Minute
	if err := store.ClaimTx(t.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
		rows, err := claims.Claim(ctx, mail(1))
		if err != nil || len(rows) != 1 {
			return errors.Join(err, errors.New("nothing is claimed"))
		}
		exec(t, tx.(pgx.Tx), "SELECT pg_sleep("+slow+")")
		_, err = claims.Extend(ctx, []waybill.Extension{{Message: rows[0].Message, Lease: lease}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "SELECT count(*) FROM waybill.delivery WHERE lease_expires_at >= handed_off_at + interval '1 minute' + interval '"+slow+" s'"); n != 1 {
		t.Error("the extended lease counts from the begin of the transaction")
	}
}

// TestClaimTxEndsInTime: work that goes on for too long, or that nobody answers, ends
// with the time of a call.
func TestClaimTxEndsInTime(t *testing.T) {
	t.Parallel()
	_, pool := newOrders(t, 2)
	store := newStore(t, postgres.Config{Pool: pool, Registry: orders(), CallTimeout: 200 * time.Millisecond})
	fireOrders(t, store, pool, 3)
	for name, work := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"work waits":               func(ctx context.Context, _ pgx.Tx) error { <-ctx.Done(); return ctx.Err() },
		"work waits, says nothing": func(ctx context.Context, _ pgx.Tx) error { <-ctx.Done(); return nil },
		"the database is slow": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
			return err
		},
	} {
		err := store.ClaimTx(t.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
			if _, err := claims.Claim(ctx, mail(100)); err != nil {
				t.Error(err)
			}
			return work(ctx, tx.(pgx.Tx))
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the end of the time", name, err)
		}
		eventually(t, name+": all is rolled back", func() bool {
			return count(t, pool, "SELECT count(*) FROM waybill.delivery WHERE status = 'pending'") == 6 && len(lockable(t, pool)) == 6
		})
	}
}

// lockable returns the rows that nobody has locked.
func lockable(t *testing.T, pool *pgxpool.Pool) []int64 {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT id FROM waybill.delivery FOR UPDATE SKIP LOCKED")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestAClientThatVanishedKeepsNoRows: its machine lost its network in the middle of
// the transaction, so that the server hears of no end. The rows are free again
// after the time of a call.
func TestAClientThatVanishedKeepsNoRows(t *testing.T) {
	t.Parallel()
	direct, pool := newOrders(t, 2)
	fireOrders(t, direct, pool, 3)
	address, err := url.Parse(pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, address.Host)
	defer proxy.Cut() // or the pool would wait for what it closed
	address.Host = proxy.Addr()
	store := newStore(t, postgres.Config{Pool: newPool(t, address.String(), 1), Registry: orders(), CallTimeout: 500 * time.Millisecond})
	err = store.ClaimTx(t.Context(), func(ctx context.Context, _ any, claims waybill.Claimer) error {
		rows, err := claims.Claim(ctx, mail(100))
		if len(rows) != 3 || len(lockable(t, pool)) != 3 {
			t.Errorf("%d rows are claimed and %d free, want 3 of each", len(rows), len(lockable(t, pool)))
		}
		proxy.Hold()
		return err
	})
	if err == nil {
		t.Error("committed over a network that carries nothing")
	}
	eventually(t, "the rows are free", func() bool { return len(lockable(t, pool)) == 6 })
	if rows := claim(t, direct, 100, "mail"); len(rows) != 3 {
		t.Errorf("another relay claimed %d rows, want 3", len(rows))
	}
}

// TestClaimTxLeavesNothingOnItsConnection: a pooler may give the next transaction of
// anybody the same one.
func TestClaimTxLeavesNothingOnItsConnection(t *testing.T) {
	t.Parallel()
	store, pool := newOrders(t, 1)
	fireOrders(t, store, pool, 3)
	const settings = "SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings WHERE source = 'session'"
	session := func() (all string) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "SELECT coalesce(("+settings+"), '')").Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := session()
	for _, end := range []error{nil, errors.New("roll back")} {
		err := store.ClaimTx(t.Context(), func(ctx context.Context, _ any, claims waybill.Claimer) error {
			_, err := claims.Claim(ctx, mail(1))
			return errors.Join(err, end)
		})
		if !errors.Is(err, end) {
			t.Error(err)
		}
		if got := session(); got != before {
			t.Errorf("the session was left with %s, want %s", got, before)
		}
	}
}
