package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker"
)

type parcel struct {
	N int `json:"n"`
}

func TestOutcomeEndsOnTheRow(t *testing.T) {
	t.Parallel()
	failing := errors.New("no such\x00address")
	for _, c := range []struct {
		name             string
		returns          error
		options          waybill.Options
		panics           any
		payload          string // of the parcel; {"n":1} unless told otherwise
		status           waybill.Status
		attempts, starts int
		wait             [2]time.Duration // until the row is due again: between these
		says             []string         // in last_error
		warns            int              // lines about the delivery
	}{
		{name: "success", status: waybill.Succeeded, attempts: 1, starts: 1},
		{name: "error", returns: failing, status: waybill.Failed, attempts: 1, starts: 1,
			wait: [2]time.Duration{0, 2 * time.Second}, says: []string{"no such\uFFFDaddress"}, warns: 1},
		{name: "error at the last attempt", returns: failing, options: waybill.Options{MaxAttempts: 1},
			status: waybill.Dead, attempts: 1, starts: 1, says: []string{"no such"}, warns: 1},
		{name: "permanent", returns: fmt.Errorf("order 7: %w", waybill.Permanent(failing)),
			status: waybill.Dead, attempts: 1, starts: 1, says: []string{"order 7: no such"}, warns: 1},
		{name: "retry after", returns: fmt.Errorf("closed: %w", waybill.RetryAfter(90*time.Second)),
			status: waybill.Failed, attempts: 1, starts: 1, wait: [2]time.Duration{90 * time.Second, 90 * time.Second},
			says: []string{"closed: retry after 1m30s"}, warns: 1},
		{name: "deferred", returns: waybill.Defer(40 * time.Second), options: waybill.Options{GiveUpAfter: time.Hour},
			status: waybill.Failed, attempts: 0, starts: 0, wait: [2]time.Duration{40 * time.Second, 80 * time.Second},
			says: []string{"deferred for 40s"}, warns: 1},
		{name: "deferred for too long", returns: waybill.Defer(40 * time.Second), options: waybill.Options{GiveUpAfter: time.Nanosecond},
			status: waybill.Dead, attempts: 0, starts: 0, says: []string{"given up after"}, warns: 1},
		{name: "deferred without an end", returns: waybill.Defer(40 * time.Second),
			status: waybill.Failed, attempts: 1, starts: 1, wait: [2]time.Duration{40 * time.Second, 40 * time.Second},
			says: []string{"deferred for 40s"}, warns: 1},
		{name: "panic", panics: "out of paper", status: waybill.Failed, attempts: 1, starts: 1,
			wait: [2]time.Duration{0, 2 * time.Second}, says: []string{"panic: out of paper", "worker_test.TestOutcomeEndsOnTheRow"}, warns: 1},
		{name: "payload that does not decode", payload: `{"n":"one"}`, status: waybill.Dead, attempts: 1, starts: 1,
			says: []string{"decode payload of parcel.sent as worker_test.parcel", "cannot unmarshal string"}, warns: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			reg := waybill.NewRegistry()
			waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
			waybill.On(reg, "a", func(context.Context, parcel) error {
				runs++
				if c.panics != nil {
					panic(c.panics)
				}
				return c.returns
			}, c.options)
			b := newBench(t, reg)
			w := b.start(worker.Config{})
			if c.payload == "" {
				c.payload = `{"n":1}`
			}
			b.fire(1, "parcel.sent", c.payload)
			before := waybill.StampOf(time.Now())
			wantNil(t, b.queue.give(b.claim()...), 1)
			b.settled()
			after := waybill.StampOf(time.Now())
			w.stop()

			r := b.wantRow(1, c.status, c.attempts, c.starts)
			if c.status == waybill.Failed {
				if r.AvailableAt < before.Add(c.wait[0]) || r.AvailableAt > after.Add(c.wait[1]) {
					t.Errorf("due again %s after the run, want %s to %s", r.AvailableAt.Time().Sub(after.Time()), c.wait[0], c.wait[1])
				}
			} else if r.SettledAt == 0 {
				t.Error("the settled row has no settled_at")
			}
			for _, says := range c.says {
				if !strings.Contains(r.Error, says) {
					t.Errorf("last_error %q does not say %q", r.Error, says)
				}
			}
			if len(c.says) == 0 && r.Error != "" {
				t.Errorf("last_error %q, want none", r.Error)
			}
			b.log.Want(t, c.warns, "level=WARN", "delivery_id=1", "receiver=a")
			if wantRuns := 1; c.payload == `{"n":1}` && runs != wantRuns {
				t.Errorf("%d runs, want %d", runs, wantRuns)
			}
			b.seen.wantCount(t, waybill.ObservedTake, 1)
			b.seen.wantCount(t, waybill.ObservedRun, 1)
			acks := b.seen.of(waybill.ObservedAck)
			if len(acks) != 1 || acks[0].Status != c.status || acks[0].Receiver != "a" || acks[0].DeliveryID != 1 ||
				acks[0].Deferred != (c.attempts == 0) || (acks[0].Err == nil) != (c.status == waybill.Succeeded) {
				t.Errorf("observed outcomes %+v", acks)
			}
		})
	}
}

func TestDeliveryFailsUntilItIsDead(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, func(_ context.Context, d *waybill.Delivery) error {
		return fmt.Errorf("attempt %d of %d, start %d", d.Attempt, d.MaxAttempts, d.Start)
	}, map[string]waybill.Options{"a": {MaxAttempts: 3}}))
	w := b.start(worker.Config{})
	b.fire(1, "parcel.sent", `{}`)
	for n := 1; n <= 3; n++ {
		b.store.SetClockOffset(time.Duration(n) * time.Hour) // past the backoff
		wantNil(t, b.queue.give(b.claim()...), 1)
		b.awaitLine("attempt failed", fmt.Sprintf("attempt=%d", n))
		status := waybill.Failed
		if n == 3 {
			status = waybill.Dead
		}
		r := b.wantRow(1, status, n, n)
		if want := fmt.Sprintf("attempt %d of 3, start %d", n, n); r.Error != want {
			t.Errorf("last_error %q, want %q", r.Error, want)
		}
		b.log.Want(t, n, "level=WARN", "attempt failed", "delivery_id=1", "max_attempts=3")
	}
	w.stop()
	if left := b.claim(); len(left) != 0 {
		t.Errorf("a dead row was claimed: %v", left)
	}
}

// What a receiver asked for and did not get is said once, and not each time.
func TestDeferralsThatCountAreExplainedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error { return waybill.Defer(time.Second) },
		map[string]waybill.Options{"a": {}, "b": {}}))
	w := b.start(worker.Config{})
	wantNil(t, b.deliver(5), 10)
	b.settled()
	w.stop()
	b.log.Want(t, 10, "level=WARN", "attempt failed")
	b.log.Want(t, 1, "level=WARN", "declares no give-up-after", "receiver=a")
	b.log.Want(t, 1, "level=WARN", "declares no give-up-after", "receiver=b")
}

func TestTakeIsObservedWithItsWaitInTheQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, succeed, map[string]waybill.Options{"a": {}}))
	w := b.start(worker.Config{})
	b.fire(1, "parcel.sent", `{}`)
	messages := b.claim()
	b.store.SetClockOffset(30 * time.Second)
	wantNil(t, b.queue.give(messages...), 1)
	b.settled()
	w.stop()
	if takes := b.seen.of(waybill.ObservedTake); takes[0].Elapsed < 30*time.Second || takes[0].Elapsed > 40*time.Second {
		t.Errorf("observed %+v, want a wait of some 30s", takes)
	}
}
