package storetest

import (
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

const hour = time.Hour

var claimCases = []testCase{
	{"stamps the row", func(b *scene) {
		b.start("a")
		before := b.parcels(1)[0]
		got := b.claim(10, "a")
		equal(b, "rows", len(got), 1)
		row := b.row(before.ID)
		now := b.now()
		near(b, "claimed_at", row.ClaimedAt, now)
		near(b, "handed_off_at", row.HandedOffAt, now)
		near(b, "lease_expires_at", row.LeaseExpiresAt, now.Add(stamped))
		want := before
		want.Status, want.ClaimedBy = waybill.Claimed, relayID
		want.ClaimedAt, want.HandedOffAt, want.LeaseExpiresAt = row.ClaimedAt, row.HandedOffAt, row.LeaseExpiresAt
		equal(b, "row", row, want)
		equal(b, "claimed row", got[0], waybill.ClaimedRow{
			Message:  waybill.Message{DeliveryID: row.ID, Claim: waybill.Claim{By: relayID, At: row.ClaimedAt}},
			Receiver: "a", AvailableAt: row.AvailableAt,
		})
	}},
	{"takes the oldest first, up to the limit", func(b *scene) {
		b.start("a", "b")
		var want []int64
		for _, offset := range []time.Duration{-1 * hour, -3 * hour, -2 * hour} {
			b.SetClock(offset)
			b.parcels(2)
		}
		b.SetClock(0)
		rows := b.rows() // -1h: a b a b, -3h: a b a b, -2h: a b a b
		for _, i := range []int{4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3} {
			want = append(want, rows[i].ID)
		}
		var got []int64
		for _, limit := range []int{5, 3, 100} {
			got = append(got, claimedIDs(b.claim(limit, "a", "b"))...)
			if limit < 100 && len(got) != 5 && len(got) != 8 {
				b.Fatalf("limit %d: %d rows in all", limit, len(got))
			}
		}
		equal(b, "order", got, want)
		equal(b, "rows left", len(b.claim(100, "a", "b")), 0)
	}},
	{"keeps the order for one receiver", func(b *scene) {
		b.start("a")
		var want []int64
		for i := range 3 {
			b.SetClock(-time.Duration(i+1) * hour)
			rows := b.parcels(1)
			want = append([]int64{rows[len(rows)-1].ID}, want...)
		}
		b.SetClock(0)
		equal(b, "order", claimedIDs(b.claim(10, "a")), want)
	}},
	{"takes only what is due", func(b *scene) {
		b.start("a")
		b.SetClock(time.Minute)
		b.parcels(1)
		b.SetClock(0)
		equal(b, "rows before", len(b.claim(10, "a")), 0)
		b.SetClock(2 * time.Minute)
		equal(b, "rows after", len(b.claim(10, "a")), 1)
	}},
	{"takes only the named receivers", func(b *scene) {
		b.start("a", "b", "c", "d")
		b.parcels(5)
		for _, row := range b.claim(100, "b") {
			equal(b, "receiver", row.Receiver, "b")
		}
		got := b.claim(100, "a", "b", "d", "nobody")
		equal(b, "rows", len(got), 10)
		for _, row := range got {
			if row.Receiver != "a" && row.Receiver != "d" {
				b.Fatalf("claimed a row of %q", row.Receiver)
			}
		}
		equal(b, "rows for no receiver", len(b.claim(100)), 0)
		equal(b, "rows of c", b.count("SELECT count(*) FROM delivery WHERE receiver = 'c' AND status = 'pending'"), 5)
	}},
	{"takes a receiver once that is named twice", func(b *scene) {
		b.start("a")
		b.parcels(3)
		equal(b, "rows", len(b.claim(100, "a", "a")), 3)
	}},
	{"takes failed rows whose wait is over", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: time.Minute}})
		equal(b, "rows before", len(b.claim(10, "a")), 0)
		b.SetClock(2 * time.Minute)
		got := b.claim(10, "a")
		equal(b, "rows after", len(got), 1)
		equal(b, "lost runs", got[0].LostRuns, 0)
	}},
	{"never takes settled or claimed rows", func(b *scene) {
		b.start("a")
		rows := b.parcels(5)
		for i, status := range []string{"succeeded", "dead", "orphaned", "cancelled", "claimed"} {
			b.exec("UPDATE delivery SET status = '%s' WHERE id = %d", status, rows[i].ID)
		}
		b.unchanged(func() { equal(b, "rows", len(b.claim(10, "a")), 0) })
	}},
	{"shares no row among claimers", func(b *scene) {
		b.start("a", "b")
		const claimers, parcels = 3, 300
		b.parcels(parcels)
		var (
			mu    sync.Mutex
			owner = map[int64]int{}
			wg    sync.WaitGroup
		)
		for i := range claimers {
			other := b.second()
			wg.Go(func() {
				for {
					rows, err := other.Store.Claim(b.ctx, waybill.ClaimRequest{
						By: relayID, Receivers: []string{"a", "b"}, Limit: 7, Lease: stamped,
					})
					if err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					for _, row := range rows {
						if first, ok := owner[row.DeliveryID]; ok {
							b.Errorf("delivery %d was claimed by %d and by %d", row.DeliveryID, first, i)
						}
						owner[row.DeliveryID] = i
					}
					done := len(owner) == 2*parcels || b.Failed() || b.ctx.Err() != nil
					mu.Unlock()
					if done {
						return
					}
				}
			})
		}
		wg.Wait()
		equal(b, "rows claimed", len(owner), 2*parcels)
	}},
	// Trap 12: a row given back until now, which is still held by a clock that is behind.
	{"stamps later than ever, under a clock that steps back", func(b *scene) {
		b.start("a")
		first := b.claimed(1)[0]
		last := first.Claim.At
		for range 3 {
			_, err := b.Store.GiveBack(b.ctx, []waybill.GiveBack{{Message: b.current(first.DeliveryID)}})
			b.must(err)
			b.SetClock(-hour)
			got := b.lapsed("a")
			equal(b, "rows", len(got), 1)
			if got[0].Claim.At <= last {
				b.Fatalf("stamped %s after %s", got[0].Claim.At, last)
			}
			last = got[0].Claim.At
		}
		// also over a take and a failure
		taken := b.take(b.current(first.DeliveryID))
		equal(b, "taken", len(taken), 1)
		if taken[0].Claim.At <= last {
			b.Fatalf("take stamped %s after %s", taken[0].Claim.At, last)
		}
		b.ack(waybill.Ack{Message: messageOf(taken[0]), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true}})
		b.SetClock(-30 * time.Minute)
		got := b.claim(10, "a")
		equal(b, "rows", len(got), 1)
		if got[0].Claim.At <= taken[0].Claim.At {
			b.Fatalf("stamped %s after %s", got[0].Claim.At, taken[0].Claim.At)
		}
	}},
	{"owed receivers are those with due or waiting rows", func(b *scene) {
		b.start("a", "b", "c", "d")
		b.parcels(3)
		b.exec("UPDATE delivery SET status = 'succeeded' WHERE receiver = 'b'")
		b.exec("UPDATE delivery SET status = 'failed' WHERE receiver = 'c'")
		b.exec("UPDATE delivery SET receiver = 'unknown' WHERE receiver = 'd'")
		for _, c := range []struct{ except, want []string }{
			{nil, []string{"a", "c", "unknown"}},
			{[]string{"a"}, []string{"c", "unknown"}},
			{[]string{"a", "c", "unknown", "b"}, nil},
		} {
			got, err := b.Store.OwedReceivers(b.ctx, c.except)
			b.must(err)
			if len(got) != len(c.want) {
				b.Fatalf("except %v: got %v, want %v", c.except, got, c.want)
			}
			for i := range got {
				equal(b, "receiver", got[i], c.want[i])
			}
		}
	}},
}

// current returns the message of a claimed row, as it is now.
func (b *scene) current(id int64) waybill.Message {
	b.Helper()
	row := b.row(id)
	return waybill.Message{DeliveryID: id, Claim: waybill.Claim{By: row.ClaimedBy, At: row.ClaimedAt}}
}
