package storetest

import (
	"time"

	"github.com/waybill-go/waybill"
)

var extendCases = []testCase{
	{"moves the lease and nothing else", func(b *scene) {
		b.start("a", "b")
		messages := b.claimedFor("a", "b")
		before := b.rows()
		ids, err := b.Store.Extend(b.ctx, []waybill.Extension{
			{Message: messages[1], Lease: 2 * hour}, {Message: messages[0], Lease: time.Minute},
		})
		b.must(err)
		sameIDs(b, "held", ids, []int64{messages[0].DeliveryID, messages[1].DeliveryID})
		after, now := b.rows(), b.now()
		near(b, "lease of the first", after[0].LeaseExpiresAt, now.Add(time.Minute))
		near(b, "lease of the second", after[1].LeaseExpiresAt, now.Add(2*hour))
		for i := range after {
			after[i].LeaseExpiresAt = before[i].LeaseExpiresAt
		}
		equal(b, "rows but for their leases", after, before)
	}},
	{"revives a lapsed lease that nobody claimed", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.lapse()
		ids, err := b.Store.Extend(b.ctx, []waybill.Extension{{Message: message, Lease: time.Minute}})
		b.must(err)
		equal(b, "held", len(ids), 1)
		equal(b, "lapsed", len(b.lapsed("a")), 0)
	}},
	{"needs the claim", func(b *scene) {
		b.start("a")
		messages := b.claimed(4)
		messages[0].Claim.By = "relay:2"
		messages[1].Claim.At++
		b.exec("UPDATE delivery SET status = 'cancelled' WHERE id = %d", messages[2].DeliveryID)
		messages[3].DeliveryID = 1 << 40
		b.unchanged(func() {
			rows := make([]waybill.Extension, len(messages))
			for i, message := range messages {
				rows[i] = waybill.Extension{Message: message, Lease: hour}
			}
			ids, err := b.Store.Extend(b.ctx, rows)
			b.must(err)
			sameIDs(b, "held", ids, nil)
			ids, err = b.Store.Extend(b.ctx, nil)
			b.must(err)
			sameIDs(b, "held of nothing", ids, nil)
		})
	}},
	{"is lost to a later claim", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.lapse()
		equal(b, "reclaimed", len(b.lapsed("a")), 1)
		b.unchanged(func() {
			ids, err := b.Store.Extend(b.ctx, []waybill.Extension{{Message: messageOf(d), Lease: hour}})
			b.must(err)
			sameIDs(b, "held", ids, nil)
		})
	}},
}
