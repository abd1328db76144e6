package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// runUntil starts the relay under a context of the test's and returns its result.
func runUntil(ctx context.Context, r *relay.Relay) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return done
}

func TestStopBetweenClaimAndHandOffGivesBack(t *testing.T) {
	t.Parallel()
	for _, arm := range []string{"Claim", "ClaimLapsed"} {
		t.Run(arm, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]waybill.Options{"a": {}})
			b.fire(3, time.Hour)
			if arm == "ClaimLapsed" {
				b.claim(3, time.Minute)
				b.store.SetClockOffset(2 * time.Minute)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b.fault.On(arm, fault.Hook{After: func() error { cancel(); return nil }})
			wantReturn(t, runUntil(ctx, b.relay(relay.Config{})))
			if got := b.queue.sizes(); len(got) != 0 {
				t.Errorf("batches of %v were handed off after the stop", got)
			}
			if !all(b.rows(), row.GivenBack) {
				t.Errorf("rows %+v, want all given back", b.rows())
			}
			b.fault.On(arm, fault.Hook{})
			b.fire(2, time.Minute) // younger ones
			once(t, b.relay(relay.Config{}), 0, 5)
			wantIDs(t, "handed off by the next relay", b.queue.ids(), ids(1, 5))
		})
	}
}

// A claim that was sent is seen through: nobody would read its answer otherwise.
func TestStopDuringTheClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(3, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.fault.On("Claim", fault.Hook{Before: func(claiming context.Context) error {
		cancel()
		return claiming.Err()
	}})
	wantReturn(t, runUntil(ctx, b.relay(relay.Config{})))
	if !all(b.rows(), row.GivenBack) {
		t.Errorf("rows %+v, want all given back", b.rows())
	}
}

func TestStopDuringTheHandOffFinishesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(5, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.queue.answers(func(enqueueing context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		cancel()
		if err := enqueueing.Err(); err != nil {
			t.Errorf("the hand-off was interrupted: %v", err)
		}
		if deadline, ok := enqueueing.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
			t.Errorf("the hand-off has the deadline %v, %t; want one within 10s", deadline, ok)
		}
		results := accepted(len(messages))
		results[1] = waybill.Result{Status: waybill.EnqueueNotSent}
		return results, nil
	})
	r := b.relay(relay.Config{BatchSize: 3})
	wantReturn(t, runUntil(ctx, r))
	rows := b.rows()
	if !heldBy(rows[0], r) || !rows[1].GivenBack() || !heldBy(rows[2], r) {
		t.Errorf("rows %+v, want the first and third in the queue and the second given back", rows[:3])
	}
	if !all(rows[3:], func(r row) bool { return r.Status == "pending" }) {
		t.Errorf("rows %+v were claimed after the stop", rows[3:])
	}
}

// Whoever comes late with a give-back gives back nothing of another's.
// Trap 6: a fence that is read off the row agrees with whoever took it.
func TestGiveBackLeavesRowsOfAnotherRelay(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: time.Minute}})
	b.fire(3, time.Hour)
	other := b.relay(relay.Config{Backend: &queue{}})
	b.queue.answers(func(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		b.store.SetClockOffset(10 * time.Minute) // the hand-off hangs for as long
		once(t, other, 0, 3)
		return down(ctx, messages)
	})
	if _, err := b.relay(relay.Config{}).Once(t.Context(), 0); err == nil {
		t.Error("no error from a queue that is down")
	}
	if !all(b.rows(), func(row row) bool { return heldBy(row, other) }) {
		t.Errorf("rows %+v, want all still with %s", b.rows(), other.ID())
	}
}

func TestStopWhileIdleIsImmediate(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := runUntil(ctx, b.relay(relay.Config{Poll: time.Hour}))
	poll.Until(t, "the first claim", func() bool { return b.fault.Count("Claim") > 0 })
	cancel()
	wantReturn(t, done)
}

func TestStopBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(1, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := b.relay(relay.Config{})
	wantReturn(t, runUntil(ctx, r))
	if n, err := r.Once(ctx, 0); n != 0 || err != nil {
		t.Errorf("Once: %d, %v; want 0 and nil", n, err)
	}
	if got := b.fault.Count("Claim") + b.fault.Count("ClaimLapsed"); got != 0 {
		t.Errorf("%d claims of a relay that was to stop, want none", got)
	}
}
