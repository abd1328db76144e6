package storetest

import (
	"time"

	"github.com/waybill-go/waybill"
)

// held claims lapsed rows of receiver a that the hold lets go.
func (b *scene) held(hold waybill.Hold) []int64 {
	b.Helper()
	rows, err := b.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{By: relayID, Receivers: []string{"a"}, Limit: 100, Lease: stamped, Hold: hold})
	b.must(err)
	return claimedIDs(rows)
}

var holdCases = []testCase{
	{"keeps rows whose messages may still come", func(b *scene) {
		b.start("a")
		rows := b.claimed(4) // one waits, one is taken, one given back, one handed off long ago
		b.take(rows[1])
		b.giveBack(waybill.GiveBack{Message: rows[2]})
		b.SetClock(-5 * hour)
		old := b.claimed(1)
		b.SetClock(hour)
		hold := waybill.Hold{Longest: 3 * hour}
		sameIDs(b, "rows that nobody waits for", b.held(hold), []int64{rows[1].DeliveryID, rows[2].DeliveryID, old[0].DeliveryID})
		b.SetClock(2 * hour)
		b.exec("UPDATE delivery SET status = 'succeeded' WHERE id NOT IN (%d, %d)", rows[0].DeliveryID, rows[3].DeliveryID)
		b.unchanged(func() { equal(b, "rows", len(b.held(hold)), 0) })
		b.SetClock(3*hour + time.Minute)
		equal(b, "rows after the longest hold", len(b.held(hold)), 2)
	}},
	{"lets rows go that the queue is past", func(b *scene) {
		b.start("a")
		first := b.claimed(1)
		b.SetClock(time.Minute)
		second := b.claimed(1)
		between := b.row(second[0].DeliveryID).HandedOffAt
		b.SetClock(hour)
		hold := waybill.Hold{Overtaken: between, Longest: 100 * hour}
		sameIDs(b, "rows handed off before", b.held(hold), []int64{first[0].DeliveryID})
		sameIDs(b, "rows without a hold", b.held(waybill.Hold{Overtaken: between}), []int64{second[0].DeliveryID})
	}},
	{"takes the oldest of what it lets go, up to the limit", func(b *scene) {
		b.start("a")
		kept := b.claimed(3)
		b.SetClock(time.Minute)
		free := b.claimed(2)
		for _, message := range free {
			b.giveBack(waybill.GiveBack{Message: message})
		}
		b.SetClock(hour)
		got, err := b.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{
			By: relayID, Limit: 1, Lease: stamped, Hold: waybill.Hold{Longest: 100 * hour},
		})
		b.must(err)
		equal(b, "row", claimedIDs(got), []int64{free[0].DeliveryID})
		equal(b, "rows kept", len(b.held(waybill.Hold{})), len(kept)+1)
	}},
}

// progress looks at the rows of the receivers, or of all but some.
func (b *scene) progress(request waybill.ProgressRequest) waybill.Progress {
	b.Helper()
	progress, err := b.Store.Progress(b.ctx, request)
	b.must(err)
	return progress
}

var progressCases = []testCase{
	{"is the newest hand-off and take that workers have", func(b *scene) {
		b.start("a")
		all := waybill.ProgressRequest{}
		equal(b, "of no rows", b.progress(all), waybill.Progress{})
		var messages []waybill.Message
		for i := range 4 {
			b.SetClock(time.Duration(i) * 10 * time.Second)
			messages = append(messages, b.claimed(1)...)
		}
		equal(b, "of rows that wait", b.progress(all), waybill.Progress{})
		b.SetClock(40 * time.Second)
		b.take(messages[2])
		b.SetClock(50 * time.Second)
		b.take(messages[1])
		want := waybill.Progress{HandedOff: b.row(messages[2].DeliveryID).HandedOffAt, Taken: b.row(messages[1].DeliveryID).TakenAt}
		equal(b, "of two that run", b.progress(all), want)
		b.exec("UPDATE delivery SET status = 'succeeded' WHERE id = %d", messages[2].DeliveryID)
		want.HandedOff = b.row(messages[1].DeliveryID).HandedOffAt
		equal(b, "when one is settled", b.progress(all), want)
	}},
	{"tells lapsed rows that nobody took", func(b *scene) {
		b.start("a")
		all := waybill.ProgressRequest{}
		rows := b.claimed(3)
		b.take(rows[0])
		b.giveBack(waybill.GiveBack{Message: rows[1]})
		equal(b, "lapsed, early", b.progress(all).Lapsed, false)
		b.lapse()
		equal(b, "lapsed, with one that waits", b.progress(all).Lapsed, true)
		b.exec("UPDATE delivery SET status = 'dead' WHERE id = %d", rows[2].DeliveryID)
		equal(b, "lapsed, of one taken and one given back", b.progress(all).Lapsed, false)
	}},
	{"is that of a lane's receivers, or of all but some", func(b *scene) {
		b.start("a", "b")
		b.take(b.claimed(1)[0]) // of either receiver
		running := b.row(1)
		other := map[string]string{"a": "b", "b": "a"}[running.Receiver]
		for _, c := range []struct {
			request waybill.ProgressRequest
			seen    bool
		}{
			{waybill.ProgressRequest{Receivers: []string{running.Receiver}}, true},
			{waybill.ProgressRequest{Receivers: []string{other}}, false},
			{waybill.ProgressRequest{Receivers: []string{}}, false},
			{waybill.ProgressRequest{Except: []string{other}}, true},
			{waybill.ProgressRequest{Except: []string{running.Receiver}}, false},
		} {
			equal(b, "seen", b.progress(c.request).Taken != 0, c.seen)
		}
	}},
}
