package storetest

import (
	"time"

	"github.com/waybill-go/waybill"
)

func (b *scene) giveBack(rows ...waybill.GiveBack) []int64 {
	b.Helper()
	ids, err := b.Store.GiveBack(b.ctx, rows)
	b.must(err)
	return ids
}

var giveBackCases = []testCase{
	// Trap 13: a give-back by claim, which releases the rows beside it.
	{"keeps the row's place and lets it be claimed at once", func(b *scene) {
		b.start("a")
		messages := b.claimed(3)
		before := b.row(messages[1].DeliveryID)
		sameIDs(b, "given back", b.giveBack(waybill.GiveBack{Message: messages[1]}), []int64{messages[1].DeliveryID})
		row := b.row(messages[1].DeliveryID)
		want := before
		want.HandedOffAt, want.LeaseExpiresAt = 0, row.LeaseExpiresAt
		equal(b, "row", row, want)
		got := b.lapsed("a")
		equal(b, "rows", claimedIDs(got), []int64{messages[1].DeliveryID})
		equal(b, "available_at", got[0].AvailableAt, before.AvailableAt)
		equal(b, "lost runs", got[0].LostRuns, 0)
	}},
	{"waits out the delay", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.giveBack(waybill.GiveBack{Message: message, Delay: time.Minute})
		equal(b, "rows before", len(b.lapsed("a")), 0)
		near(b, "lease_expires_at", b.row(message.DeliveryID).LeaseExpiresAt, b.now().Add(time.Minute))
		b.SetClock(2 * time.Minute)
		equal(b, "rows after", len(b.lapsed("a")), 1)
	}},
	{"undoes the start of a run", func(b *scene) {
		b.start("a")
		d := b.taken()
		equal(b, "starts while it runs", b.row(d.ID).Starts, 1)
		sameIDs(b, "given back", b.giveBack(waybill.GiveBack{Message: messageOf(d)}), []int64{d.ID})
		row := b.row(d.ID)
		equal(b, "starts", row.Starts, 0)
		equal(b, "attempts", row.Attempts, 0)
		equal(b, "taken_at", row.TakenAt, 0)
		equal(b, "handed_off_at", row.HandedOffAt, 0)
		equal(b, "again", len(b.giveBack(waybill.GiveBack{Message: messageOf(d)})), 1)
		equal(b, "starts after the second time", b.row(d.ID).Starts, 0)
	}},
	{"needs the claim", func(b *scene) {
		b.start("a")
		messages := b.claimed(4)
		wrongBy, wrongAt, settled, unknown := messages[0], messages[1], messages[2], messages[3]
		wrongBy.Claim.By = "relay:2"
		wrongAt.Claim.At++
		b.exec("UPDATE delivery SET status = 'cancelled' WHERE id = %d", settled.DeliveryID)
		unknown.DeliveryID = 1 << 40
		b.unchanged(func() {
			sameIDs(b, "given back", b.giveBack(
				waybill.GiveBack{Message: wrongBy}, waybill.GiveBack{Message: wrongAt},
				waybill.GiveBack{Message: settled}, waybill.GiveBack{Message: unknown, Delay: time.Second},
			), nil)
		})
	}},
	{"is lost to a later claim", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.lapse()
		equal(b, "reclaimed", len(b.lapsed("a")), 1)
		b.unchanged(func() { sameIDs(b, "given back", b.giveBack(waybill.GiveBack{Message: message}), nil) })
	}},
	{"has a delay for each row", func(b *scene) {
		b.start("a")
		messages := b.claimed(3)
		b.giveBack(
			waybill.GiveBack{Message: messages[2], Delay: 3 * time.Minute},
			waybill.GiveBack{Message: messages[0], Delay: 10 * time.Minute},
			waybill.GiveBack{Message: messages[1]},
		)
		now := b.now()
		near(b, "lease of the first", b.row(messages[0].DeliveryID).LeaseExpiresAt, now.Add(10*time.Minute))
		near(b, "lease of the third", b.row(messages[2].DeliveryID).LeaseExpiresAt, now.Add(3*time.Minute))
		equal(b, "rows at once", claimedIDs(b.lapsed("a")), []int64{messages[1].DeliveryID})
	}},
	{"of nothing is nothing", func(b *scene) {
		b.start("a")
		sameIDs(b, "given back", b.giveBack(), nil)
	}},
	{"does not stop a message that still arrives", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.giveBack(waybill.GiveBack{Message: message})
		got := b.take(message)
		equal(b, "taken", len(got), 1)
		if !got[0].HandedOffAt.IsZero() {
			b.Fatalf("handed off at %s, want never", got[0].HandedOffAt)
		}
	}},
}
