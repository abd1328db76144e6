//go:build soak

package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// The plans at the size of a system that has been in use for a while. The figures:
//
//	make soak PKG=./store/postgres RUN=Plan ARGS=-v

func TestPlansInFiveStatesAtSize(t *testing.T) { plansInFiveStates(t, 20_000, 200_000) }

// Two million settled rows and a million due ones of another lane.
func TestPlansBesideAHistoryAtSize(t *testing.T) {
	b := plansBesideAHistory(t, 2_000_000, 1_000_000)
	t.Run("one relay", func(t *testing.T) { relaysAtSize(t, b, 1, 100_000) })
	t.Run("three relays", func(t *testing.T) { relaysAtSize(t, b, 3, 100_000) })
	t.Run("counts", func(t *testing.T) {
		timed := func(name string, count func() (int64, error)) {
			t.Helper()
			before, began := b.pages(), time.Now()
			rows, err := count()
			took := time.Since(began)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Logf("%-12s %8d rows in %7.1f ms, %8d pages of delivery", name, rows, took.Seconds()*1000, b.pages()-before)
		}
		timed("tallies", func() (n int64, err error) {
			tallies, err := b.store.Tallies(t.Context())
			for _, tally := range tallies {
				n += tally.Rows
			}
			return n, err
		})
		timed("owed events", func() (n int64, err error) {
			owed, err := b.store.OwedEvents(t.Context())
			for _, o := range owed {
				n += o.Rows
			}
			return n, err
		})
		timed("in flight", func() (n int64, err error) {
			counts, err := b.store.InFlight(t.Context())
			for _, c := range counts {
				n += c.Waiting + c.Running + c.GivenBack
			}
			return n, err
		})
		timed("owed receivers", func() (int64, error) {
			owed, err := b.store.OwedReceivers(t.Context(), nil)
			return int64(len(owed)), err
		})
	})
}

// relaysAtSize lets relays claim so many rows of one lane at once, and says how fast.
// What is held against a bound is the pages they read.
func relaysAtSize(t *testing.T, b *planBench, relays, rows int) {
	b.fillDue(wideLane[:3], rows, 0)
	before := b.pages()
	var (
		claimed, claims, slowest atomic.Int64
		wg                       sync.WaitGroup
	)
	pool := newPool(t, b.pool.Config().ConnString(), int32(relays))
	store := newStore(t, postgres.Config{Pool: pool, Registry: waybill.NewRegistry(), Schema: "plan", CallTimeout: time.Minute})
	began := time.Now()
	for i := range relays {
		wg.Go(func() {
			for claimed.Load() < int64(rows) && t.Context().Err() == nil {
				start := time.Now()
				got, err := store.Claim(t.Context(), waybill.ClaimRequest{
					By: fmt.Sprintf("relay:%d", i), Receivers: wideLane[:3], Limit: planBatch, Lease: time.Hour,
				})
				if err != nil {
					t.Error(err)
					return
				}
				took := time.Since(start).Microseconds()
				for was := slowest.Load(); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
				}
				claims.Add(1)
				claimed.Add(int64(len(got)))
			}
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	pool.Close() // hands in its counters
	pages := b.pages() - before
	t.Logf("%d relays: %d rows in %d claims, %.1f rows a claim, %.0f rows/s, slowest claim %.1f ms, %.1f pages a row",
		relays, claimed.Load(), claims.Load(), float64(claimed.Load())/float64(claims.Load()), float64(claimed.Load())/seconds,
		float64(slowest.Load())/1000, float64(pages)/float64(claimed.Load()))
	if claimed.Load() < int64(rows) {
		t.Errorf("%d rows were claimed, want %d", claimed.Load(), rows)
	}
	// Alone a claim reads some 25 pages a row here, and beside two others also looks at their
	// rows. A claim that began anew for each row that changed under it, or that
	// read the lane, would read thousands.
	if pages > 100*claimed.Load() {
		t.Errorf("%d pages were read for %d rows", pages, claimed.Load())
	}
	b.exec("UPDATE plan.delivery SET status = 'succeeded', lease_expires_at = NULL WHERE status = 'claimed'")
	b.exec("VACUUM plan.delivery")
}

// pages counts those of delivery and its indexes that were looked at so far.
func (b *planBench) pages() (n int64) {
	b.t.Helper()
	b.exec("SELECT pg_stat_force_next_flush()")
	err := b.pool.QueryRow(b.t.Context(), `
SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit
  FROM pg_statio_user_tables WHERE schemaname = 'plan' AND relname = 'delivery'`).Scan(&n)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestPlanOfLapsedBesideDeadEntries looks for lapsed rows where 200,000 others were
// claimed and settled since the last vacuum: the index of claimed rows still has
// their entries. The first look walks past them, once, and marks them; from then on
// the look costs what is in flight, and the pages that hold nothing else.
func TestPlanOfLapsedBesideDeadEntries(t *testing.T) {
	const dead = 200_000
	for _, inFlight := range []int{300, 30_000} {
		t.Run(fmt.Sprint(inFlight), func(t *testing.T) {
			url := services.Postgres(t)
			b := newPlanBench(t, url)
			e := newExplainer(t, url, planModes[0])
			b.fillDue(wideLane, 20_000, 0)
			hold := func() {
				b.fillDue(wideLane, inFlight, 1)
				b.exec(`
UPDATE plan.delivery SET status = 'claimed', claimed_by = 'relay', claimed_at = now(), lease_expires_at = now() + interval '1 day'
 WHERE available_at < now() - interval '90 minutes' AND status = 'pending'`)
			}
			look := func() (c cost, ms float64) {
				for _, plan := range e.explain(func() {
					rows, err := e.store.ClaimLapsed(t.Context(), waybill.LapsedRequest{By: "relay", Limit: planBatch, Lease: time.Minute})
					if err != nil || len(rows) != 0 {
						t.Fatalf("claimed %d rows: %v", len(rows), err)
					}
				}) {
					bounds{removed: int64(inFlight), read: []string{"delivery_claimed"}}.check(t, "lapsed", plan, &c)
					ms = plan.Time
				}
				return c, ms
			}
			e.mute(func() { look() })
			several := func(what string) (last int64) {
				var pages []int64
				var took []string
				for range 5 {
					c, ms := look()
					pages, took = append(pages, c.buffers), append(took, fmt.Sprintf("%.1f", ms))
				}
				t.Logf("%d in flight, %s: ms %s, pages %d", inFlight, what, strings.Join(took, " "), pages)
				return slices.Min(pages)
			}
			hold()
			b.exec("VACUUM plan.delivery")
			several("no dead entries")
			b.fillDue(wideLane, dead, 4)
			b.exec("UPDATE plan.delivery SET status = 'claimed', claimed_by = 'relay' WHERE available_at < now() - interval '4 hours'")
			b.exec("UPDATE plan.delivery SET status = 'succeeded' WHERE available_at < now() - interval '4 hours'")
			several("200,000 dead entries")
			// They can be marked once no snapshot of the server is older.
			poll.Until(t, "the look passes over dead entries", func() bool {
				c, _ := look()
				return c.buffers < int64(inFlight)+2_000
			})
			b.exec("VACUUM plan.delivery")
			several("vacuumed")
		})
	}
	// What keeps that from going on: vacuum comes after a fiftieth of the table has
	// changed, and not the fifth that is the default.
	b := newPlanBench(t, services.Postgres(t))
	var options json.RawMessage
	if err := b.pool.QueryRow(t.Context(), "SELECT to_json(reloptions) FROM pg_class WHERE oid = 'plan.delivery'::regclass").Scan(&options); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(options), "autovacuum_vacuum_scale_factor=0.02") {
		t.Errorf("options of delivery: %s", options)
	}
}
