package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

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
