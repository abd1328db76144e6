package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

var cancelCases = []testCase{
	{"withdraws what is owed and not claimed, and counts the rest", func(b *scene) {
		b.start("a", "b", "c")
		event := b.fire(Parcel{})[0]
		other := b.fire(Parcel{})[0]
		running := b.take(b.claim(1, "a")[0].Message)[0]
		failed := b.take(b.claim(1, "b")[0].Message)[0]
		b.ack(waybill.Ack{Message: messageOf(failed), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: time.Hour, Error: "e"}})
		before := b.rows()
		got := b.cancel(waybill.CancelRequest{Events: []int64{event}})
		equal(b, "result", got, waybill.CancelResult{Cancelled: 2, InFlight: 1})
		for i, row := range b.rows() {
			want := before[i]
			if row.EventID == event && row.ID != running.ID {
				near(b, "settled_at", row.SettledAt, b.now())
				want.Status, want.SettledAt = waybill.Cancelled, row.SettledAt // attempts and error stay, for people
			}
			equal(b, "row", row, want)
		}
		// What is withdrawn is claimed no more, and what runs goes on.
		for _, row := range b.claim(10, "a", "b", "c") {
			equal(b, "event of what is claimed", b.row(row.DeliveryID).EventID, other)
		}
		sameIDs(b, "acknowledged", b.ack(waybill.Ack{Message: messageOf(running), Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}}), []int64{running.ID})
	}},
	{"narrows by receiver and by delivery, and never widens", func(b *scene) {
		b.start("a", "b")
		events := b.fire(Parcel{}, Parcel{})
		rows := b.rows() // a and b of the first event, a and b of the second
		for _, c := range []struct {
			request waybill.CancelRequest
			want    []int64
		}{
			{waybill.CancelRequest{Events: events[:1], Receiver: "b"}, []int64{rows[1].ID}},
			{waybill.CancelRequest{Events: events[:1], Deliveries: []int64{rows[0].ID, rows[2].ID}}, []int64{rows[0].ID}},
			{waybill.CancelRequest{Events: []int64{}}, nil},
			{waybill.CancelRequest{Events: events, Deliveries: []int64{}}, nil},
			{waybill.CancelRequest{Events: events, Receiver: "nobody"}, nil},
			{waybill.CancelRequest{Deliveries: []int64{rows[3].ID}}, []int64{rows[3].ID}},
		} {
			before := b.withStatus(waybill.Cancelled)
			equal(b, "result", b.cancel(c.request), waybill.CancelResult{Cancelled: len(c.want)})
			sameIDs(b, "cancelled", b.withStatus(waybill.Cancelled), append(before, c.want...))
		}
	}},
	{"of nothing at all is refused", func(b *scene) {
		b.start("a")
		b.parcels(1)
		b.unchanged(func() {
			b.must(b.InTx(b.ctx, func(tx any) error {
				_, err := b.Cancel(b.ctx, tx, waybill.CancelRequest{Receiver: "a"})
				wantErr(b, "cancel", err)
				return nil
			}))
		})
	}},
	{"leaves what is settled as it is", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: "e"}})
		b.unchanged(func() {
			equal(b, "result", b.cancel(waybill.CancelRequest{Events: []int64{d.Event.ID}}), waybill.CancelResult{})
		})
	}},
	{"goes with the caller's transaction", func(b *scene) {
		b.start("a")
		event := b.fire(Parcel{})[0]
		b.unchanged(func() {
			err := b.InTx(b.ctx, func(tx any) error {
				got, err := b.Cancel(b.ctx, tx, waybill.CancelRequest{Events: []int64{event}})
				b.must(err)
				equal(b, "result", got, waybill.CancelResult{Cancelled: 1})
				return errRollBack
			})
			if !errors.Is(err, errRollBack) {
				b.Fatal(err)
			}
		})
		equal(b, "claimed", len(b.claim(10, "a")), 1)
	}},
	// lease.md 4.3, I7: no row is withdrawn under a running worker.
	{"of a message that is out makes the copy a stale one", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.must2(b.Store.GiveBack(b.ctx, []waybill.GiveBack{{Message: message}}))
		equal(b, "given back is in flight", b.cancel(waybill.CancelRequest{Deliveries: []int64{message.DeliveryID}}), waybill.CancelResult{InFlight: 1})
		again := b.lapsed("a")[0].Message
		d := b.take(again)[0]
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Error: "e"}})
		equal(b, "failed is cancelled", b.cancel(waybill.CancelRequest{Deliveries: []int64{message.DeliveryID}}), waybill.CancelResult{Cancelled: 1})
		b.unchanged(func() { equal(b, "taken", len(b.take(message, again)), 0) })
	}},
}

func (b *scene) cancel(request waybill.CancelRequest) (result waybill.CancelResult) {
	b.Helper()
	b.must(b.InTx(b.ctx, func(tx any) (err error) {
		result, err = b.Cancel(b.ctx, tx, request)
		return err
	}))
	return result
}

func (b *scene) withStatus(status waybill.Status) []int64 {
	b.Helper()
	rows := slices.DeleteFunc(b.rows(), func(row Row) bool { return row.Status != status })
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

func (b *scene) must2(_ []int64, err error) {
	b.Helper()
	b.must(err)
}
