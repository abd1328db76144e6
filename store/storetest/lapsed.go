package storetest

import (
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// lapse moves the clock past every lease that a case has stamped.
func (b *scene) lapse() { b.SetClock(hour) }

var lapsedCases = []testCase{
	{"takes only rows whose lease is over", func(b *scene) {
		b.start("a")
		b.parcels(3)
		claimed := b.claim(2, "a")
		b.unchanged(func() { equal(b, "rows before", len(b.lapsed("a")), 0) })
		b.SetClock(stamped - time.Minute)
		equal(b, "rows shortly before", len(b.lapsed("a")), 0)
		b.SetClock(stamped + time.Minute)
		sameIDs(b, "rows after", claimedIDs(b.lapsed("a")), claimedIDs(claimed))
		equal(b, "rows again", len(b.lapsed("a")), 0)
	}},
	{"stamps the row like a claim", func(b *scene) {
		b.start("a")
		d := b.taken()
		before := b.row(d.ID)
		b.lapse()
		got := b.lapsed("a")
		equal(b, "rows", len(got), 1)
		row, now := b.row(d.ID), b.now()
		near(b, "claimed_at", row.ClaimedAt, now)
		near(b, "handed_off_at", row.HandedOffAt, now)
		near(b, "lease_expires_at", row.LeaseExpiresAt, now.Add(stamped))
		want := before
		want.ClaimedBy, want.ClaimedAt, want.HandedOffAt, want.LeaseExpiresAt, want.TakenAt =
			relayID, row.ClaimedAt, row.HandedOffAt, row.LeaseExpiresAt, 0
		equal(b, "row", row, want)
		equal(b, "claimed row", got[0], waybill.ClaimedRow{
			Message: b.current(d.ID), Receiver: "a", AvailableAt: row.AvailableAt, LostRuns: 1,
		})
	}},
	{"counts runs that were begun and lost", func(b *scene) {
		b.start("a")
		d := b.taken()
		for lost := 1; lost <= 3; lost++ {
			b.SetClock(time.Duration(lost) * hour)
			got := b.lapsed("a")
			equal(b, "rows", len(got), 1)
			equal(b, "lost runs", got[0].LostRuns, lost)
			equal(b, "taken", len(b.take(got[0].Message)), 1)
		}
		b.ack(waybill.Ack{Message: b.current(d.ID), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true}})
		got := b.claim(1, "a")
		equal(b, "rows", len(got), 1)
		equal(b, "lost runs beside a recorded one", got[0].LostRuns, 3)
	}},
	{"charges nothing for a wait in the queue", func(b *scene) {
		b.start("a")
		b.claimed(1)
		b.lapse()
		equal(b, "lost runs", b.lapsed("a")[0].LostRuns, 0)
	}},
	{"takes the oldest first, up to the limit", func(b *scene) {
		b.start("a", "b")
		for _, offset := range []time.Duration{-1 * hour, -3 * hour, -2 * hour} {
			b.SetClock(offset)
			b.parcels(1)
		}
		b.SetClock(0)
		rows := b.rows()
		b.claim(100, "a", "b")
		b.lapse()
		var got []int64
		for _, limit := range []int{3, 100} {
			more, err := b.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{By: relayID, Limit: limit, Lease: stamped})
			b.must(err)
			got = append(got, claimedIDs(more)...)
			if limit == 3 {
				equal(b, "rows", len(more), 3)
			}
		}
		equal(b, "order", got, []int64{rows[2].ID, rows[3].ID, rows[4].ID, rows[5].ID, rows[0].ID, rows[1].ID})
	}},
	// Trap 57: no receivers, read as all of them.
	{"takes those of the named receivers, or all but some", func(b *scene) {
		b.start("a", "b", "c")
		b.parcels(1)
		for _, c := range []struct {
			receivers, except []string
			want              []string
		}{
			{receivers: []string{"a", "c"}, want: []string{"a", "c"}},
			{receivers: []string{"nobody"}},
			{receivers: []string{}},
			{except: []string{"b"}, want: []string{"a", "c"}},
			{except: []string{"a", "b", "c"}},
			{want: []string{"a", "b", "c"}},
		} {
			b.exec("UPDATE delivery SET status = 'pending'")
			equal(b, "claimed", len(b.claim(10, "a", "b", "c")), 3)
			b.SetClock(hour)
			got, err := b.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{
				By: relayID, Receivers: c.receivers, Except: c.except, Limit: 10, Lease: stamped,
			})
			b.must(err)
			b.SetClock(0)
			var keys []string
			for _, row := range got {
				keys = append(keys, row.Receiver)
			}
			equal(b, "receivers", keys, c.want)
		}
	}},
	{"never takes settled or waiting rows", func(b *scene) {
		b.start("a")
		rows := b.parcels(6)
		b.claim(6, "a")
		for i, status := range []string{"succeeded", "dead", "orphaned", "cancelled", "pending", "failed"} {
			b.exec("UPDATE delivery SET status = '%s' WHERE id = %d", status, rows[i].ID)
		}
		b.lapse()
		b.unchanged(func() { equal(b, "rows", len(b.lapsed("a")), 0) })
	}},
	{"shares no row among claimers", func(b *scene) {
		b.start("a")
		b.claimed(200)
		others := []*scene{b.second(), b.second(), b.second()}
		var (
			mu   sync.Mutex
			seen = map[int64]bool{}
			wg   sync.WaitGroup
		)
		for _, other := range others {
			other.lapse()
			wg.Go(func() {
				for done := false; !done && b.ctx.Err() == nil; {
					rows, err := other.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{By: relayID, Limit: 7, Lease: stamped})
					if err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					for _, row := range rows {
						if seen[row.DeliveryID] {
							b.Errorf("delivery %d was claimed twice", row.DeliveryID)
						}
						seen[row.DeliveryID] = true
					}
					done = len(seen) == 200 || b.Failed()
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		equal(b, "rows claimed", len(seen), 200)
	}},
}
