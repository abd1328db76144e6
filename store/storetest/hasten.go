package storetest

import (
	"time"

	"github.com/waybill-go/waybill"
)

var hastenCases = []testCase{
	{"leaves what was only deferred to its time, unless it is named", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Deferred: true, Wait: time.Hour, Error: "e"}})
		n, err := b.Store.Hasten(b.ctx, nil)
		b.must(err)
		equal(b, "hastened", n, 0)
		equal(b, "due", len(b.claim(1, "a")), 0)
		n, err = b.Store.Hasten(b.ctx, []int64{d.ID})
		b.must(err)
		equal(b, "hastened by name", n, 1)
		equal(b, "due", len(b.claim(1, "a")), 1)
	}},
	{"has failed rows due at once, and no others", func(b *scene) {
		scheduled(b, func() (time.Time, error) { return time.Now().Add(time.Hour), nil }, "a", "b")
		b.fire(Parcel{})
		var failed []int64
		for range 2 {
			d := b.take(b.claim(1, "a", "b")[0].Message)[0]
			b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: time.Hour, Error: "e"}})
			failed = append(failed, d.ID)
		}
		equal(b, "due", len(b.claim(10, "a", "b", "later")), 0)
		n, err := b.Store.Hasten(b.ctx, failed[:1])
		b.must(err)
		equal(b, "hastened", n, 1)
		equal(b, "due of one", claimedIDs(b.claim(10, "a", "b", "later")), failed[:1])
		n, err = b.Store.Hasten(b.ctx, nil)
		b.must(err)
		equal(b, "hastened of all", n, 1)
		equal(b, "due of all", claimedIDs(b.claim(10, "a", "b", "later")), failed[1:])
		n, err = b.Store.Hasten(b.ctx, []int64{})
		b.must(err)
		equal(b, "hastened of none", n, 0)
	}},
}
