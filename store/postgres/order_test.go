package postgres_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// TestBatchesLockRowsInOneOrder lets batches that share rows meet, each with its
// ids in an order of its own, on a table whose rows lie in no order at all. A
// deadlock would cost each of them the server's deadlock_timeout.
func TestBatchesLockRowsInOneOrder(t *testing.T) {
	t.Parallel()
	const rows, batch, rounds, sessions = 2000, 300, 30, 4
	pool := newPool(t, services.Postgres(t), sessions)
	migrate(t, pool, "")
	store := newStore(t, postgres.Config{Pool: pool, Registry: waybill.NewRegistry()})
	exec(t, pool, `
WITH e AS (INSERT INTO waybill.event (name, version, payload, recorded_at) VALUES ('filled', 1, '{}', now()) RETURNING id)
INSERT INTO waybill.delivery (id, event_id, receiver, target, target_digest, max_attempts, available_at, due_at,
       status, claimed_by, claimed_at, lease_expires_at)
SELECT i, e.id, 'a', i::text, sha256(i::text::bytea), 5, now(), now(), 'claimed', 'w', '2001-02-03 04:05:06Z', now()
  FROM e, generate_series(1, $1::integer) AS i ORDER BY random()`, rows)
	exec(t, pool, "VACUUM ANALYZE waybill.delivery")
	claim := waybill.Claim{By: "w", At: waybill.StampOf(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))}

	before := count(t, pool, deadlocks)
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			for range rounds {
				extensions := make([]waybill.Extension, 0, batch)
				for _, i := range rand.Perm(rows)[:batch] {
					extensions = append(extensions, waybill.Extension{
						Message: waybill.Message{DeliveryID: int64(i + 1), Claim: claim}, Lease: time.Hour,
					})
				}
				held, err := store.Extend(t.Context(), extensions)
				if err != nil || len(held) != batch {
					t.Errorf("extended %d of %d: %v", len(held), batch, err)
					return
				}
			}
		})
	}
	wg.Wait()
	// The deadlocks are counted by those who lost them, and told of when they are
	// asked, or leave.
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		exec(t, conn, "SELECT pg_stat_force_next_flush()")
		conn.Release()
	}
	if n := count(t, pool, deadlocks) - before; n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

const deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
