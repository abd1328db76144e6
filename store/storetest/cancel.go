package storetest

import (
	"errors"
	"fmt"
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

var reopenCases = []testCase{
	// Trap 58: what is opened again with the attempts it had.
	{"has settled rows owed again, with all their attempts", func(b *scene) {
		b.start("a")
		b.SetClock(-time.Hour)
		var settled []int64
		for _, status := range []waybill.Status{waybill.Succeeded, waybill.Dead, waybill.Orphaned} {
			d := b.taken()
			b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: status, Attempted: status != waybill.Orphaned, Error: "e"}})
			settled = append(settled, d.ID)
		}
		withdrawn := b.parcels(1)[3].ID
		b.cancel(waybill.CancelRequest{Deliveries: []int64{withdrawn}})
		settled = append(settled, withdrawn)
		before := b.rows()
		b.SetClock(0)
		sameIDs(b, "reopened", b.reopen(settled...), settled)
		for i, row := range b.rows() {
			near(b, "due_at", row.DueAt, b.now())
			want := before[i]
			want.Status, want.Attempts, want.Starts, want.LastError = waybill.Pending, 0, 0, ""
			want.AvailableAt, want.DueAt = row.DueAt, row.DueAt
			want.LeaseExpiresAt, want.HandedOffAt, want.TakenAt, want.SettledAt = 0, 0, 0, 0
			equal(b, "row, with the claim it had", row, want)
		}
		equal(b, "claimed", len(b.claim(10, "a")), 4)
	}},
	// Trap 50: a replay that wipes a live lease.
	{"leaves what is owed as it is", func(b *scene) {
		b.start("a")
		running := b.taken()
		b.parcels(1)
		b.unchanged(func() {
			sameIDs(b, "reopened", b.reopen(running.ID, running.ID+1, 99), nil)
			sameIDs(b, "reopened of none", b.reopen([]int64{}...), nil)
		})
	}},
	{"narrows by event and by receiver, and never widens", func(b *scene) {
		b.start("a", "b")
		events := b.fire(Parcel{}, Parcel{})
		rows := b.rows() // a and b of the first event, a and b of the second
		b.cancel(waybill.CancelRequest{Events: events})
		for _, c := range []struct {
			request waybill.ReopenRequest
			want    []int64
		}{
			{waybill.ReopenRequest{Events: []int64{}}, nil},
			{waybill.ReopenRequest{Events: events[:1], Deliveries: []int64{rows[2].ID}}, nil},
			{waybill.ReopenRequest{Events: events, Receiver: "nobody"}, nil},
			{waybill.ReopenRequest{Events: events[:1], Receiver: "b"}, []int64{rows[1].ID}},
			{waybill.ReopenRequest{Events: events[1:]}, []int64{rows[2].ID, rows[3].ID}},
		} {
			b.must(b.InTx(b.ctx, func(tx any) error {
				ids, err := b.Reopen(b.ctx, tx, c.request)
				sameIDs(b, fmt.Sprintf("reopened by %+v", c.request), ids, c.want)
				return err
			}))
		}
		b.must(b.InTx(b.ctx, func(tx any) error {
			_, err := b.Reopen(b.ctx, tx, waybill.ReopenRequest{Receiver: "a"})
			wantErr(b, "reopen of nothing at all", err)
			return nil
		}))
	}},
	{"has no message from before match again", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		d := b.take(message)[0]
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}})
		b.SetClock(-time.Hour) // also not under a clock that steps back
		b.reopen(d.ID)
		again := b.claim(1, "a")[0].Message
		if again.Claim.At <= d.Claim.At {
			b.Fatalf("claimed at %s, which is not after %s", again.Claim.At, d.Claim.At)
		}
		b.unchanged(func() {
			equal(b, "taken", len(b.take(message)), 0)
			sameIDs(b, "acknowledged", b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Dead}}), nil)
		})
	}},
	{"goes with the caller's transaction", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: "e"}})
		b.unchanged(func() {
			err := b.InTx(b.ctx, func(tx any) error {
				ids, err := b.Reopen(b.ctx, tx, waybill.ReopenRequest{Deliveries: []int64{d.ID}})
				b.must(err)
				sameIDs(b, "reopened", ids, []int64{d.ID})
				return errRollBack
			})
			if !errors.Is(err, errRollBack) {
				b.Fatal(err)
			}
		})
	}},
}

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

var eventsCases = []testCase{
	{"come in the order they were fired, page by page", func(b *scene) {
		b.start()
		b.fire(waybill.RawEvent{Name: "other", Payload: []byte(`1`)})
		ids := b.fire(Parcel{N: 0}, Parcel{N: 1}, waybill.RawEvent{Name: "other", Version: 3, Payload: []byte(`[2]`), Headers: map[string]string{"k": "v"}}, Parcel{N: 2})
		var got []int64
		for after := int64(0); ; {
			page, err := b.Store.Events(b.ctx, waybill.EventsRequest{Name: parcelEvent, After: after, Limit: 2})
			b.must(err)
			for _, event := range page {
				got, after = append(got, event.ID), event.ID
			}
			if len(page) < 2 {
				break
			}
		}
		equal(b, "ids", got, []int64{ids[0], ids[1], ids[3]})
		all, err := b.Store.Events(b.ctx, waybill.EventsRequest{Limit: 10})
		b.must(err)
		equal(b, "of any name", len(all), 5)
		event := *all[3]
		near(b, "recorded_at", waybill.StampOf(event.RecordedAt), b.now())
		event.RecordedAt, event.OccurredAt, event.CorrelationID = time.Time{}, time.Time{}, ""
		equal(b, "event", event, waybill.Event{ID: ids[2], Name: "other", Version: 3, Payload: []byte(`[2]`), Headers: map[string]string{"k": "v"}})
		_, err = b.Store.Events(b.ctx, waybill.EventsRequest{})
		wantErr(b, "no limit", err)
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

func (b *scene) reopen(ids ...int64) (reopened []int64) {
	b.Helper()
	if ids == nil {
		ids = []int64{}
	}
	b.must(b.InTx(b.ctx, func(tx any) (err error) {
		reopened, err = b.Reopen(b.ctx, tx, waybill.ReopenRequest{Deliveries: ids})
		return err
	}))
	return reopened
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
