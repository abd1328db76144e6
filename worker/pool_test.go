package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker"
)

// poolOf returns a store on that many connections. Its receivers are plain, or run in
// transactions that are open for as long as the lease, which is extended meanwhile.
func poolOf(t *testing.T, url string, connections int, transactional bool) *postgres.Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := postgres.NewMigrator(pool, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	reg := waybill.NewRegistry()
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	waybill.On(reg, "plain", func(context.Context, parcel) error { return nil }, waybill.Options{})
	if transactional {
		const lease = 2 * time.Second
		postgres.OnTx(reg, "stock", func(ctx context.Context, tx pgx.Tx, _ parcel) error {
			_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", lease.Seconds())
			return err
		}, waybill.Options{Lease: lease, Heartbeat: true, Timeout: time.Minute})
	}
	store, err := postgres.Open(t.Context(), pool, reg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestPoolThatIsTooSmall: a pool whose connections the runs would use up is refused
// with the number that is needed, and the smallest that is not refused works: every
// slot in a transaction, leases extended beside them, plain receivers in between.
func TestPoolThatIsTooSmall(t *testing.T) {
	t.Parallel()
	const slots = 4
	for _, c := range []struct {
		connections   int
		transactional bool
		refused       string
	}{
		{slots, true, fmt.Sprintf("%d slots that run receivers in transactions need %d connections, and the store has %d", slots, slots+1, slots)},
		{slots + 1, true, ""},
		{1, false, ""},
	} {
		t.Run(fmt.Sprintf("%d connections, transactional: %t", c.connections, c.transactional), func(t *testing.T) {
			t.Parallel()
			store := poolOf(t, services.Postgres(t), c.connections, c.transactional)
			queue, seen := newHand(), &seen{}
			logger, _ := logtest.New()
			config := worker.Config{Store: store, Backend: queue, Slots: slots, Observer: seen.observe, Logger: logger}
			if c.refused != "" {
				if _, err := worker.New(config); err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("error %v, want %q", err, c.refused)
				}
				return
			}
			w := start(t, config)
			t.Cleanup(w.cancel)
			const events = 2 * slots
			fire := func(tx pgx.Tx) error {
				for range events {
					if _, err := store.Fire(t.Context(), tx, parcel{}); err != nil {
						return err
					}
				}
				return nil
			}
			if err := store.InTx(t.Context(), fire); err != nil {
				t.Fatal(err)
			}
			receivers := waybill.Keys(store.Registry().Receivers())
			rows, err := store.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: receivers, Limit: 100, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			var messages []waybill.Message
			for _, row := range rows {
				messages = append(messages, row.Message)
			}
			wantNil(t, queue.give(messages...), len(rows))
			poll.Until(t, "every outcome", func() bool { return len(seen.of(waybill.ObservedAck)) == len(rows) })
			w.stop()
			for _, ack := range seen.of(waybill.ObservedAck) {
				if ack.Status != waybill.Succeeded {
					t.Errorf("delivery %d of %s ended %s: %v", ack.DeliveryID, ack.Receiver, ack.Status, ack.Err)
				}
			}
			if want := events * len(receivers); len(rows) != want {
				t.Errorf("%d deliveries, want %d", len(rows), want)
			}
			if n := len(seen.of(waybill.ObservedExtend)); c.transactional && n == 0 {
				t.Error("no lease was extended")
			}
		})
	}
}
