package worker_test

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/worker"
)

func TestStaleAndDoubledCopiesDoNothing(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var runs atomic.Int64
	b := newBench(t, registry(t, func(ctx context.Context, d *waybill.Delivery) error {
		runs.Add(1)
		if d.Receiver == "slow" {
			<-hold
		}
		return nil
	}, map[string]waybill.Options{"a": {}, "slow": {}}))
	w := b.start(worker.Config{})
	defer close(hold)

	b.fire(4, "parcel.sent", `{}`)
	messages := b.claim("a")
	slow := b.claim("slow")[:1]
	reclaimed, cancelled, settled := messages[0], messages[1], messages[2]

	b.exec(`UPDATE delivery SET lease_expires_at = 1 WHERE id = %d`, reclaimed.DeliveryID)
	fresh := b.reclaim()
	b.exec(`UPDATE delivery SET status = 'cancelled' WHERE id = %d`, cancelled.DeliveryID)
	wantNil(t, b.queue.give(settled), 1)
	poll.Until(t, "the first run's outcome", func() bool { return b.row(settled.DeliveryID).Status == waybill.Succeeded })
	b.queue.give(slow...)
	poll.Until(t, "the slow run", func() bool { return runs.Load() == 2 })

	before := b.rows()
	for _, c := range []struct {
		class   waybill.Refusal
		message waybill.Message
	}{
		{waybill.RefusedReclaimed, reclaimed},
		{waybill.RefusedCancelled, cancelled},
		{waybill.RefusedSettled, settled},
		{waybill.RefusedTaken, slow[0]},
		{waybill.RefusedNoRow, waybill.Message{DeliveryID: 4711, Claim: settled.Claim}},
		{waybill.RefusedNoRow, waybill.Message{DeliveryID: fresh[0].DeliveryID, Claim: waybill.Claim{By: "relay"}}}, // half a claim
	} {
		seen := len(b.seen.of(waybill.ObservedRefusal))
		wantNil(t, b.queue.give(c.message), 1)
		refused := b.seen.of(waybill.ObservedRefusal)[seen:]
		if len(refused) != 1 || refused[0].Refusal != c.class || refused[0].DeliveryID != c.message.DeliveryID {
			t.Errorf("copy %v was refused %+v, want %s", c.message, refused, c.class)
		}
	}
	if after := b.rows(); !slices.Equal(before, after) {
		t.Errorf("rows changed\nfrom %+v\nto   %+v", before, after)
	}
	if runs.Load() != 2 {
		t.Errorf("%d runs, want none but the two", runs.Load())
	}
	b.log.Want(t, 6, "level=INFO", "message carried a claim the row no longer holds")
	b.log.Want(t, 0, "level=WARN")
	b.log.Want(t, 0, "level=ERROR")
	hold <- struct{}{}
	w.stop()
}

// What a copy costs is its own time in the slot: the wait for the slot is another's.
func TestWhatACopyCosts(t *testing.T) {
	t.Parallel()
	const slow = 300 * time.Millisecond
	b := newBench(t, registry(t, succeed, map[string]waybill.Options{"a": {}}))
	b.fault.On("Take", fault.Hook{Before: func(context.Context) error { <-time.After(slow); return nil }})
	w := b.start(worker.Config{Slots: 1})
	b.fire(2, "parcel.sent", `{}`)
	messages := b.claim()
	b.exec(`UPDATE delivery SET status = 'succeeded'`)
	unknown := messages[0]
	unknown.DeliveryID = 4711
	began := time.Now()
	wantNil(t, b.queue.give(append(messages, unknown)...), 3)
	w.stop()
	var sum time.Duration
	for _, seen := range b.seen.of(waybill.ObservedRefusal) {
		want := map[waybill.Refusal]string{waybill.RefusedSettled: "a", waybill.RefusedNoRow: ""}
		if receiver, ok := want[seen.Refusal]; !ok || seen.Receiver != receiver || seen.Lane != "" || seen.Elapsed < slow {
			t.Errorf("observed %+v, want a copy of receiver %q that took %s or more", seen, receiver, slow)
		}
		sum += seen.Elapsed
	}
	if all := time.Since(began); sum > all {
		t.Errorf("3 copies kept one slot busy for %s within %s", sum, all)
	}
	b.seen.wantCount(t, waybill.ObservedRefusal, 3)
}

func TestCopiesInOneBatchRunOnce(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error { runs.Add(1); return nil },
		map[string]waybill.Options{"a": {}}))
	w := b.start(worker.Config{Slots: 50})
	b.fire(5, "parcel.sent", `{}`)
	messages := b.claim()
	wantNil(t, b.queue.give(slices.Repeat(messages, 5)...), 25)
	b.settled()
	w.stop()
	if runs.Load() != 5 {
		t.Errorf("%d runs of 5 deliveries in 25 copies, want 5", runs.Load())
	}
	b.seen.wantCount(t, waybill.ObservedRefusal, 20)
}

func TestUnknownReceiverIsGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, succeed, map[string]waybill.Options{"a": {}, "new": {}}))
	b.fault.SetRegistry(registry(t, succeed, map[string]waybill.Options{"a": {}})) // this worker is older
	w := b.start(worker.Config{})
	b.fire(2, "parcel.sent", `{}`)
	messages := b.claim("new")
	before := waybill.StampOf(time.Now())
	wantNil(t, b.queue.give(messages...), 2)
	after := waybill.StampOf(time.Now())
	for _, m := range messages {
		r := b.wantRow(m.DeliveryID, waybill.Claimed, 0, 0)
		if r.HandedOff != 0 || r.Lease < before.Add(5*time.Second) || r.Lease > after.Add(5*time.Second) {
			t.Errorf("row %+v is offered again at %s, want given back for 5s", r, r.Lease)
		}
	}
	b.log.Want(t, 2, "level=WARN", "receiver is not declared in this worker")
	b.seen.wantCount(t, waybill.ObservedRun, 0)
	b.store.SetClockOffset(time.Until(before.Time().Add(5*time.Second)) - time.Second)
	if len(b.reclaim()) != 0 {
		t.Error("a row that was given back is claimed before its delay")
	}
	b.store.SetClockOffset(6 * time.Second)
	if len(b.reclaim()) != 2 {
		t.Error("rows that were given back are not claimed after their delay")
	}
	w.stop()
}

// Trap 22: an event that was renamed, and whose rows die of it.
func TestEventThatTheReceiverDoesNotKnowStaysOwed(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	run := func(context.Context, *waybill.Delivery) error { t.Error("the receiver was run"); return nil }
	reg.Add(waybill.Receiver{Key: "a", Event: "parcel.sent", Run: run})
	b := newBench(t, reg)
	renamed := waybill.NewRegistry()
	renamed.Add(waybill.Receiver{Key: "a", Event: "parcel.shipped", Run: run})
	b.fault.SetRegistry(renamed)
	w := b.start(worker.Config{})
	b.fire(1, "parcel.sent", `{}`)
	wantNil(t, b.queue.give(b.claim()...), 1)
	r := b.wantRow(1, waybill.Claimed, 0, 0)
	if r.HandedOff != 0 || r.TakenAt != 0 {
		t.Errorf("row %+v, want it given back", r)
	}
	b.log.Want(t, 1, "level=WARN", "receiver is not declared for the event", "receiver=a", "event=parcel.sent", "delivery_id=1")
	w.stop()
}

// Of two copies either may be the one that holds the row.
func TestGivesBackTheCopyThatHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, succeed, map[string]waybill.Options{"new": {}}))
	b.fault.SetRegistry(registry(t, succeed, nil))
	b.queue.linger = make(chan struct{})
	w := b.start(worker.Config{Slots: 50})
	b.fire(10, "parcel.sent", `{}`)
	stale := b.claim("new")
	b.exec(`UPDATE delivery SET lease_expires_at = 1`)
	fresh := b.reclaim()
	w.cancel() // now all are given back, in batches
	wantNil(t, b.queue.give(append(stale, fresh...)...), 20)
	close(b.queue.linger)
	if err := w.ended(); err != nil {
		t.Error(err)
	}
	for _, r := range b.rows() {
		if !r.GivenBack() {
			t.Errorf("row %+v, want it given back", r)
		}
	}
}

// A later release has fired what this one cannot read: another worker can.
func TestEventOfALaterVersionStaysOwed(t *testing.T) {
	t.Parallel()
	type parcel struct{}
	declared := func(version int) *waybill.Registry {
		reg := waybill.NewRegistry()
		waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{Version: version})
		waybill.On(reg, "a", func(context.Context, parcel) error { return nil }, waybill.Options{})
		return reg
	}
	b := newBench(t, declared(3))
	b.fault.SetRegistry(declared(2))
	w := b.start(worker.Config{})
	err := b.store.InTx(t.Context(), func(tx *sql.Tx) error {
		_, err := b.store.Fire(t.Context(), tx, parcel{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantNil(t, b.queue.give(b.claim()...), 1)
	r := b.wantRow(1, waybill.Claimed, 0, 0)
	if r.HandedOff != 0 || r.TakenAt != 0 {
		t.Errorf("row %+v, want it given back", r)
	}
	b.log.Want(t, 1, "level=WARN", "event is of version 3, newer than the declared 2", "receiver=a", "delivery_id=1")
	w.stop()
}
