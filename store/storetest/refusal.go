package storetest

import (
	"fmt"

	"github.com/waybill-go/waybill"
)

// refusalCases hold waybill.Take, which classes refusals, to what Look reports.
var refusalCases = []testCase{
	{"is classed for each message", func(b *scene) {
		b.start("a")
		messages := b.claimed(9)
		names := []waybill.Refusal{
			"", waybill.RefusedReclaimed, waybill.RefusedTaken, waybill.RefusedSettled, waybill.RefusedCancelled,
			waybill.RefusedNoRow, waybill.RefusedReclaimed, waybill.RefusedTaken, waybill.RefusedNoRow,
		}
		// 0 is good; 1 was reclaimed; 2 runs; 3 is done; 4 was withdrawn; 5 was
		// never there; 6 was reclaimed and given back; 7 ran and failed; 8 is half.
		taken := b.take(messages[2], messages[3], messages[7])
		equal(b, "taken", len(taken), 3)
		for _, d := range taken {
			switch d.ID {
			case messages[3].DeliveryID:
				b.ack(waybill.Ack{Message: messageOf(d), Outcome: success})
			case messages[7].DeliveryID:
				b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: hour}})
			}
		}
		b.exec("UPDATE delivery SET status = 'cancelled' WHERE id = %d", messages[4].DeliveryID)
		messages[5].DeliveryID = 1 << 40
		b.giveBack(waybill.GiveBack{Message: messages[1]}, waybill.GiveBack{Message: messages[6]})
		for _, row := range b.lapsed("a") {
			if row.DeliveryID == messages[6].DeliveryID {
				b.giveBack(waybill.GiveBack{Message: row.Message})
			}
		}
		messages[8].Claim.By = ""
		answers, err := waybill.Take(b.ctx, b.Store, workerID, messages)
		b.must(err)
		for i, answer := range answers {
			equal(b, fmt.Sprintf("answer %d", i), answer.Refused, names[i])
			equal(b, fmt.Sprintf("answer %d has a delivery", i), answer.Delivery != nil, names[i] == "")
		}
	}},
	{"of an unknown receiver leaves the row held", func(b *scene) {
		b.start("a")
		messages := b.claimed(1)
		b.exec("UPDATE delivery SET receiver = 'elsewhere'")
		b.unchanged(func() {
			answers, err := waybill.Take(b.ctx, b.Store, workerID, messages)
			b.must(err)
			equal(b, "refusal", answers[0].Refused, waybill.RefusedReceiver)
		})
	}},
	{"of a copy in the same batch", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		answers, err := waybill.Take(b.ctx, b.Store, workerID, []waybill.Message{message, message})
		b.must(err)
		equal(b, "first", answers[0].Refused, "")
		equal(b, "second", answers[1].Refused, waybill.RefusedTaken)
	}},
	{"is looked up from the row as it is", func(b *scene) {
		b.start("a")
		d := b.taken()
		row := b.row(d.ID)
		got, err := b.Store.Look(b.ctx, []int64{d.ID, 1 << 40})
		b.must(err)
		equal(b, "rows", got, []waybill.RowState{{
			ID: d.ID, Status: waybill.Claimed, Claim: d.Claim, Receiver: "a", HandedOffAt: row.HandedOffAt, TakenAt: row.TakenAt,
		}})
		got, err = b.Store.Look(b.ctx, nil)
		b.must(err)
		equal(b, "rows of nothing", len(got), 0)
		b.parcels(1)
		fresh := b.rows()[1]
		got, err = b.Store.Look(b.ctx, []int64{fresh.ID})
		b.must(err)
		equal(b, "fresh row", got, []waybill.RowState{{ID: fresh.ID, Status: waybill.Pending, Receiver: "a"}})
	}},
}
