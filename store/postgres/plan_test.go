package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

var lane = []string{"mail.a", "mail.b", "mail.c"}

// TestPlansDoNotGrowWithTheTable counts what the statements read in many rounds over
// one connection, by whatever plans it comes to keep, on a table that has grown since it
// made the first. No step may read the table, and a claim may read only a little more
// than what it claims: neither the lane's other rows nor others'. What the plans are,
// TestPlansInFiveStates has the server say.
// Trap 1: an index whose condition is not that of the query.
func TestPlansDoNotGrowWithTheTable(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t)
	for _, state := range []struct {
		name    string
		prepare func(b *planBench)
	}{
		{"grown from nothing under cached plans", func(b *planBench) {
			b.fill(150)
			b.work(12, 2)
			b.exec("UPDATE plan.delivery SET status = 'succeeded'")
			b.fill(10_000)
		}},
		{"grown while cached plans were analysed anew", func(b *planBench) {
			b.fill(150)
			b.work(12, 2)
			b.exec("ANALYZE plan.delivery")
			b.work(12, 2)
			b.fill(10_000)
		}},
	} {
		t.Run(state.name, func(t *testing.T) {
			b := newPlanBench(t, url)
			state.prepare(b)
			before := b.counters()
			const rounds, batch = 12, 100
			b.work(rounds, batch)
			after := b.counters()
			if n := after.seqScans - before.seqScans; n != 0 {
				t.Errorf("%d sequential scans of delivery", n)
			}
			// One of a table of a few rows would cost nothing, and have the whole
			// statement compiled.
			if n := after.pauseScans - before.pauseScans; n != 0 {
				t.Errorf("%d sequential scans of lane_pause", n)
			}
			claims := int64(2 * rounds)
			// Ten candidates for each row, and at worst every row claimed so far: a
			// snapshot held elsewhere keeps their dead entries from being skipped.
			// All that is due would be more than twice that.
			if read := (after.dueRead - before.dueRead) / claims; read > (15+2*rounds)*batch {
				t.Errorf("a claim of %d rows read %d entries of the index of due rows", batch, read)
			}
			var locked int64
			if err := b.pool.QueryRow(t.Context(),
				"SELECT count(*) FROM plan.delivery WHERE status = 'pending' AND xmax::text <> '0'").Scan(&locked); err != nil {
				t.Fatal(err)
			}
			if locked > 0 {
				t.Errorf("%d rows were locked and not claimed", locked)
			}
		})
	}
}

// TestRelaysOfOneLane lets relays claim one lane at once: each finds rows beside
// the others', and a row that changed under a claim does not make it begin anew.
func TestRelaysOfOneLane(t *testing.T) {
	t.Parallel()
	const relays, batch, rows = 3, 100, 9_000
	b := newPlanBench(t, services.Postgres(t))
	b.fill(rows)
	before := b.counters()
	var (
		claims, claimed atomic.Int64
		seen            sync.Map
		wg              sync.WaitGroup
	)
	pool := newPool(t, b.pool.Config().ConnString(), relays)
	store := newStore(t, postgres.Config{Pool: pool, Registry: waybill.NewRegistry(), Schema: "plan"})
	for i := range relays {
		wg.Go(func() {
			for claimed.Load() < rows && t.Context().Err() == nil {
				got, err := store.Claim(t.Context(), waybill.ClaimRequest{
					By: fmt.Sprintf("relay:%d", i), Receivers: lane, Limit: batch, Lease: time.Minute,
				})
				if err != nil {
					t.Error(err)
					return
				}
				for _, row := range got {
					if _, twice := seen.LoadOrStore(row.DeliveryID, true); twice {
						t.Errorf("delivery %d was claimed twice", row.DeliveryID)
					}
				}
				claims.Add(1)
				claimed.Add(int64(len(got)))
			}
		})
	}
	wg.Wait()
	if n := claims.Load(); n > 4*rows/batch {
		t.Errorf("%d claims for %d rows", n, rows)
	}
	pool.Close() // hands in its counters
	if read := b.counters().dueRead - before.dueRead; read > 60*rows {
		t.Errorf("%d entries of the index of due rows were read for %d rows", read, rows)
	}
}

// planBench is a store over one connection, on tables that nothing analyses but
// the test.
type planBench struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
}

func newPlanBench(t *testing.T, url string) *planBench {
	t.Helper()
	b := &planBench{t: t, pool: newPool(t, url, 1)}
	b.exec("DROP SCHEMA IF EXISTS plan CASCADE")
	migrate(t, b.pool, "plan")
	b.exec("ALTER TABLE plan.delivery SET (autovacuum_enabled = false)")
	b.store = newStore(t, postgres.Config{Pool: b.pool, Registry: waybill.NewRegistry(), Schema: "plan", CallTimeout: time.Minute})
	return b
}

func (b *planBench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// fill adds n due rows of the lane, and as many older ones of another.
func (b *planBench) fill(n int) {
	b.t.Helper()
	b.exec(`
WITH e AS (INSERT INTO plan.event (name, version, payload, recorded_at) VALUES ('filled', 1, '{}', now()) RETURNING id)
INSERT INTO plan.delivery (event_id, receiver, target, target_digest, max_attempts, available_at, due_at)
SELECT e.id, CASE WHEN i % 2 = 0 THEN ($2::text[])[1 + (i / 2) % 3] ELSE 'bulk' END, i::text, sha256(i::text::bytea), 5,
       now() - interval '1 hour' * (1 + i % 2) + i * interval '1 millisecond', now()
  FROM e, generate_series(1, $1::integer * 2) AS i`, n, lane)
}

// work takes rows through every step, so many at a time.
func (b *planBench) work(rounds, batch int) {
	b.t.Helper()
	ctx := b.t.Context()
	var leases []waybill.ReceiverLease
	for _, receiver := range lane {
		leases = append(leases, waybill.ReceiverLease{Receiver: receiver, Lane: "mail", Lease: time.Minute})
	}
	_, err := b.store.PauseLane(ctx, waybill.PauseRequest{Lane: "bulk"})
	b.wants("pause of another lane", 0, 0, err)
	for range rounds {
		for _, receivers := range [][]string{lane, lane[:1]} {
			rows, err := b.store.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: receivers, Limit: batch, Lease: time.Minute})
			b.wants("claim", len(rows), batch, err)
			var (
				messages []waybill.Message
				back     []waybill.GiveBack
				extend   []waybill.Extension
				acks     []waybill.Ack
				ids      []int64
			)
			for _, row := range rows {
				messages = append(messages, row.Message)
				ids = append(ids, row.DeliveryID)
				extend = append(extend, waybill.Extension{Message: row.Message, Lease: time.Minute})
			}
			held, err := b.store.Extend(ctx, extend)
			b.wants("extend", len(held), batch, err)
			back = append(back, waybill.GiveBack{Message: messages[0]})
			held, err = b.store.GiveBack(ctx, back)
			b.wants("give back", len(held), 1, err)
			lapsed, err := b.store.ClaimLapsed(ctx, waybill.LapsedRequest{By: "relay", Limit: batch, Lease: time.Minute})
			b.wants("lapsed", len(lapsed), 1, err)
			messages[0] = lapsed[0].Message
			taken, err := b.store.Take(ctx, waybill.TakeRequest{By: "worker", Messages: messages, Leases: leases})
			b.wants("take", len(taken), batch, err)
			states, err := b.store.Look(ctx, ids)
			b.wants("look", len(states), batch, err)
			for i, d := range taken {
				outcome := waybill.Outcome{Status: waybill.Succeeded, Attempted: true}
				if i%2 == 1 {
					outcome = waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: "no"}
				}
				acks = append(acks, waybill.Ack{Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim}, Outcome: outcome})
			}
			held, err = b.store.Ack(ctx, acks)
			b.wants("ack", len(held), batch, err)
			pauses, err := b.store.Pauses(ctx)
			b.wants("pauses", len(pauses), 1, err)
			_, err = b.store.OwedReceivers(ctx, lane)
			b.wants("owed receivers", 0, 0, err)
		}
	}
}

func (b *planBench) wants(what string, got, want int, err error) {
	b.t.Helper()
	if err != nil || got != want {
		b.t.Fatalf("%s: %d rows, want %d: %v", what, got, want, err)
	}
}

type planCounters struct{ seqScans, pauseScans, dueRead int64 }

func (b *planBench) counters() planCounters {
	b.t.Helper()
	b.exec("SELECT pg_stat_force_next_flush()")
	var c planCounters
	err := b.pool.QueryRow(context.Background(), `
SELECT t.seq_scan, i.idx_tup_read, (SELECT seq_scan FROM pg_stat_user_tables WHERE schemaname = 'plan' AND relname = 'lane_pause')
  FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (schemaname, relname)
 WHERE t.schemaname = 'plan' AND t.relname = 'delivery' AND i.indexrelname = 'delivery_due'`).Scan(&c.seqScans, &c.dueRead, &c.pauseScans)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}
