package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// A message has its receiver's own lease to reach a worker, whatever the lane
// holds beside it.
// Trap 9: a lease that is forgotten where a row goes to a queue.
func TestRowHoldsItsOwnLeaseAtTheHandOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{
		"short":  {Lease: time.Minute},
		"long":   {Lease: 10 * time.Minute},
		"inBand": {Lease: 5*time.Minute + 10*time.Second}, // up to a tenth below the stamp
	})
	b.fire(2, time.Hour)
	extended := 0
	b.fault.On("Extend", fault.Hook{Before: func(context.Context) error { extended++; return nil }})
	var handedOff []row
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		handedOff = b.rows() // as they stand before the queue has them
		return accepted(len(messages)), nil
	})
	once(t, b.relay(relay.Config{}), 0, 6)
	want := map[string]time.Duration{"short": time.Minute, "long": 10 * time.Minute, "inBand": 5*time.Minute + 30*time.Second}
	for _, r := range handedOff {
		if off := own(r) - want[r.Receiver]; off < 0 || off > 10*time.Second {
			t.Errorf("row %d of %q was handed off with a lease of %s, want %s", r.ID, r.Receiver, own(r), want[r.Receiver])
		}
	}
	if len(handedOff) != 6 || extended != 1 {
		t.Errorf("%d rows after %d extensions, want 6 after 1", len(handedOff), extended)
	}
}

func TestLaneOfOneLeaseCostsNoExtension(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: time.Minute}, "b": {Lease: time.Minute}})
	b.fire(2, time.Hour)
	b.claim(1, time.Second)
	b.store.SetClockOffset(time.Minute)
	once(t, b.relay(relay.Config{}), 0, 4)
	for _, r := range b.rows() {
		if own(r) < time.Minute || own(r) > time.Minute+6*time.Second {
			t.Errorf("row %d has a lease of %s, want 1m or up to a tenth more", r.ID, own(r))
		}
	}
	if got := b.fault.Count("Extend"); got != 0 {
		t.Errorf("%d extensions, want none", got)
	}
}

func TestRowLostBeforeItsHandOffIsNotHandedOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: time.Hour}})
	b.fire(1, time.Hour)
	other := b.relay(relay.Config{Store: b.store, Backend: &queue{}})
	r := b.relay(relay.Config{})
	b.fault.On("Extend", fault.Hook{Before: func(context.Context) error {
		b.exec(`UPDATE delivery SET lease_expires_at = 1 WHERE receiver = 'short'`)
		once(t, other, 1, 1)
		return nil
	}})
	once(t, r, 0, 1)
	if rows := b.rowsOf("short"); !heldBy(rows[0], other) || contains(b.queue.ids(), rows[0].ID) {
		t.Errorf("row %+v was handed off by %v, want only by %s", rows[0], b.queue.ids(), other.ID())
	}
	if rows := b.rowsOf("long"); !heldBy(rows[0], r) {
		t.Errorf("row %+v, want it handed off", rows[0])
	}
}

func TestExtensionThatFailsHandsNothingOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: time.Hour}})
	b.fire(1, time.Hour)
	b.fault.On("Extend", fault.Hook{Before: func(context.Context) error { return errDown }})
	if n, err := b.relay(relay.Config{}).Once(t.Context(), 0); n != 0 || !errors.Is(err, errDown) {
		t.Errorf("Once: %d, %v; want 0 and the store's error", n, err)
	}
	if got := b.queue.sizes(); len(got) != 0 {
		t.Errorf("batches of %v were handed off without their lease", got)
	}
}

func TestRefusedMessageComesBackAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: time.Minute}})
	b.fire(5, time.Hour)
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		results := accepted(len(messages))
		results[2] = waybill.Result{Status: waybill.EnqueueRefused, Err: errors.New("too heavy")}
		return results, nil
	})
	r := b.relay(relay.Config{})
	before := waybill.StampOf(time.Now())
	once(t, r, 5, 4)
	after := waybill.StampOf(time.Now())
	for _, row := range b.rows() {
		if row.ID != 3 {
			if !heldBy(row, r) {
				t.Errorf("row %+v, want it left to the queue", row)
			}
			continue
		}
		if row.HandedOff != 0 || row.Lease < before.Add(time.Second) || row.Lease > after.Add(time.Second) {
			t.Errorf("row %+v comes back at %s, want given back for 1s", row, row.Lease)
		}
	}
	b.log.Want(t, 1, "level=WARN", "message was refused", "delivery_id=3", "too heavy", "again_in=1s")
}

func TestRefusedRowIsOfferedAgainAfterDoublingDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		store.owe("a", 3)
		start := time.Now()
		var offers []time.Duration
		q := &queue{answer: func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
			results := accepted(len(messages))
			for i, m := range messages {
				if m.DeliveryID != 2 {
					continue
				}
				offers = append(offers, time.Since(start))
				if len(offers) < 8 {
					results[i] = waybill.Result{Status: waybill.EnqueueRefused, Err: errors.New("too heavy")}
				}
			}
			return results, nil
		}}
		const poll = 50 * time.Millisecond
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Poll: poll}))
		time.Sleep(70 * time.Second)
		synctest.Wait()
		stop()
		if len(offers) != 8 {
			t.Fatalf("offered %d times, want 8: %v", len(offers), offers)
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 15, 15, 15} {
			if gap := offers[i+1] - offers[i]; gap < want*time.Second || gap > want*time.Second+2*poll {
				t.Errorf("offer %d came after %s, want %ds", i+2, gap, want)
			}
		}
		if got := len(q.ids()); got != 2+8 {
			t.Errorf("%d messages in all, want 2 others once each and 8: %v", got, q.ids())
		}
	})
}

// A row that the queue took starts anew when it is refused later.
func TestAcceptanceForgetsRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(1, time.Hour)
	r := b.relay(relay.Config{})
	refuse := true
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		if refuse {
			return waybill.AllResults(len(messages), waybill.EnqueueRefused, errors.New("no")), nil
		}
		return accepted(len(messages)), nil
	})
	for i, c := range []struct {
		refuse bool
		after  time.Duration // on the database's clock
	}{{true, 0}, {true, time.Minute}, {false, 2 * time.Minute}, {true, time.Hour}} {
		b.store.SetClockOffset(c.after)
		refuse = c.refuse
		want := 1
		if refuse {
			want = 0
		}
		once(t, r, 1, want)
		if got := len(b.queue.sizes()); got != i+1 {
			t.Fatalf("offered %d times, want %d", got, i+1)
		}
	}
	b.log.Want(t, 2, "message was refused", "again_in=1s")
	b.log.Want(t, 1, "message was refused", "again_in=2s")
}

func TestUnknownResultWaitsForItsLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: time.Minute}})
	b.fire(5, time.Hour)
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		if len(messages) == 5 {
			return accepted(2), nil // and not a word of the others
		}
		return accepted(len(messages)), nil
	})
	r := b.relay(relay.Config{})
	once(t, r, 0, 2)
	if !all(b.rows(), func(row row) bool { return heldBy(row, r) }) {
		t.Errorf("rows %+v, want all left to their leases", b.rows())
	}
	b.log.Want(t, 1, "level=WARN", "may or may not be in the queue", "messages=3")
	if got := b.fault.Count("GiveBack"); got != 0 {
		t.Errorf("given back %d times, want never", got)
	}
	once(t, r, 0, 0)
	b.exec(`UPDATE delivery SET status = 'succeeded' WHERE id <= 2`)
	b.store.SetClockOffset(2 * time.Minute)
	once(t, r, 0, 3)
	wantIDs(t, "handed off", b.queue.ids(), []int64{1, 2, 3, 4, 5, 3, 4, 5})
}

// A backend that says two things at once is believed in both.
func TestErrorBesideAcceptedMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: time.Minute}})
	b.fire(3, time.Hour)
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		results, err := down(t.Context(), messages)
		results[0] = waybill.Result{Status: waybill.EnqueueAccepted}
		return results, err
	})
	r := b.relay(relay.Config{})
	if n, err := r.Once(t.Context(), 0); n != 1 || !errors.Is(err, errDown) {
		t.Errorf("Once: %d, %v; want 1 and the queue's error", n, err)
	}
	rows := b.rows()
	if !heldBy(rows[0], r) || !rows[1].GivenBack() || !rows[2].GivenBack() {
		t.Errorf("rows %+v, want the first left to the queue and the others given back", rows)
	}
}

// Trap 37: a row that runs in the relay because there is no queue for it.
func TestMissingBackendHarmsItsSiteOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"far": {}, "near": {Site: waybill.SiteRelay}})
	near := &queue{}
	b.fire(3, time.Hour)
	logger, log := logtest.New()
	r := newRelay(t, relay.Config{Store: b.fault, Local: near, Poll: 20 * time.Millisecond, Logger: logger})
	run(t, r)
	poll.Until(t, "rows of site=relay", func() bool { return len(near.ids()) == 3 })
	b.fire(3, time.Hour)
	poll.Until(t, "more rows of site=relay", func() bool { return len(near.ids()) == 6 })
	for _, row := range b.rowsOf("far") {
		if !row.Status.Owed() || row.HandedOff != 0 || row.Attempts != 0 {
			t.Errorf("row %+v, want it owed, not handed off and not charged", row)
		}
	}
	log.Want(t, 3, "level=WARN", "message was refused", "no backend for site=task: configure one")
	log.Want(t, 1, "level=ERROR", "queue is not well", "site=task")
}

func TestObserverCountsRows(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}})
	b.fire(4, time.Hour)
	counts := map[waybill.ObservationKind]int{}
	r := b.relay(relay.Config{Lane: "mail", Observer: func(seen waybill.Observation) {
		if seen.Lane != "mail" {
			t.Errorf("observed %+v, want lane mail", seen)
		}
		counts[seen.Kind] += seen.Count
	}})
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		results := accepted(len(messages))
		results[3] = waybill.Result{Status: waybill.EnqueueRefused, Err: errors.New("no")}
		return results, nil
	})
	once(t, r, 0, 3)
	want := map[waybill.ObservationKind]int{waybill.ObservedClaim: 4, waybill.ObservedEnqueue: 3, waybill.ObservedGiveBack: 1}
	for kind, n := range want {
		if counts[kind] != n {
			t.Errorf("observed %v, want %v", counts, want)
		}
	}
}
