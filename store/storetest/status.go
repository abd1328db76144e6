package storetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

var statusCases = []testCase{
	{"tells the store's clock", func(b *scene) {
		b.start()
		real := b.now()
		near(b, "now", real, waybill.StampOf(time.Now()))
		b.SetClock(-3 * hour)
		near(b, "now, three hours back", b.now(), real.Add(-3*hour))
	}},
	{"tallies rows by receiver and status", func(b *scene) {
		b.start("a", "b")
		equal(b, "tallies of nothing", b.tallies(), nil)
		b.SetClock(-hour)
		b.parcels(1)
		old := b.rows()[0].DueAt
		b.SetClock(0)
		b.parcels(2)
		rows := b.rows() // a b a b a b
		b.exec("UPDATE delivery SET status = 'dead' WHERE id = %d", rows[3].ID)
		b.claim(1, "b")
		equal(b, "tallies", b.tallies(), []waybill.Tally{
			{Receiver: "a", Status: waybill.Pending, Rows: 3, OldestDue: old},
			{Receiver: "b", Status: waybill.Claimed, Rows: 1, OldestDue: old},
			{Receiver: "b", Status: waybill.Dead, Rows: 1, OldestDue: rows[3].DueAt},
			{Receiver: "b", Status: waybill.Pending, Rows: 1, OldestDue: rows[5].DueAt},
		})
	}},
	{"counts claimed rows by how far they are", func(b *scene) {
		b.start("a", "b")
		inFlight := func() []waybill.InFlight {
			got, err := b.Store.InFlight(b.ctx)
			b.must(err)
			return got
		}
		equal(b, "nothing claimed", len(inFlight()), 0)
		b.SetClock(-hour)
		b.parcels(5)
		equal(b, "nothing claimed of what is due", len(inFlight()), 0)
		first := b.claim(1, "a")[0]
		b.SetClock(0)
		rows := b.claim(4, "a")
		b.take(rows[0].Message)
		b.take(rows[1].Message)
		b.giveBack(waybill.GiveBack{Message: rows[2].Message})
		waiting := b.claim(1, "b")[0]
		equal(b, "in flight", inFlight(), []waybill.InFlight{
			{Receiver: "a", Waiting: 2, OldestHandedOff: b.row(first.DeliveryID).HandedOffAt,
				Running: 2, OldestTaken: b.row(rows[0].DeliveryID).TakenAt, GivenBack: 1},
			{Receiver: "b", Waiting: 1, OldestHandedOff: b.row(waiting.DeliveryID).HandedOffAt},
		})
	}},
	{"counts owed rows by event", func(b *scene) {
		waybill.OnAny(b.reg, "any", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
		b.start("a")
		b.parcels(3)
		b.fire(waybill.RawEvent{Name: "other", Payload: []byte(`{}`)})
		b.claim(1, "a")
		rows := b.rows()
		b.exec("UPDATE delivery SET status = 'succeeded' WHERE id = %d", rows[len(rows)-2].ID)
		settled := rows[len(rows)-2].Receiver
		got, err := b.Store.OwedEvents(b.ctx)
		b.must(err)
		want := []waybill.OwedEvent{
			{Receiver: "a", Event: parcelEvent, Rows: 3},
			{Receiver: "any", Event: "other", Rows: 1},
			{Receiver: "any", Event: parcelEvent, Rows: 3},
		}
		for i := range want {
			if want[i].Receiver == settled && want[i].Event == parcelEvent {
				want[i].Rows--
			}
		}
		slices.SortFunc(got, func(x, y waybill.OwedEvent) int {
			return strings.Compare(x.Receiver+"/"+x.Event, y.Receiver+"/"+y.Event)
		})
		equal(b, "owed events", got, want)
	}},
}

// tallies returns the store's tallies in a fixed order.
func (b *scene) tallies() []waybill.Tally {
	b.Helper()
	tallies, err := b.Store.Tallies(b.ctx)
	b.must(err)
	slices.SortFunc(tallies, func(x, y waybill.Tally) int {
		return strings.Compare(x.Receiver+"/"+string(x.Status), y.Receiver+"/"+string(y.Status))
	})
	if len(tallies) == 0 {
		return nil
	}
	return tallies
}
