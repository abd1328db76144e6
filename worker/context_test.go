package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/worker"
)

// untilEnd is a receiver that runs until its context ends, and says when and why
// that was.
type untilEnd struct {
	after time.Duration
	cause error
}

func (u *untilEnd) run(ctx context.Context, _ *waybill.Delivery) error {
	begun := time.Now()
	<-ctx.Done()
	u.after, u.cause = time.Since(begun), context.Cause(ctx)
	return ctx.Err()
}

func TestRunEndsWithItsLeaseOrItsTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options waybill.Options
		after   time.Duration
		cause   error
	}{
		{"lease", waybill.Options{Lease: time.Minute}, 55 * time.Second, waybill.ErrLeaseLost},
		{"short lease", waybill.Options{Lease: 10 * time.Second}, 9 * time.Second, waybill.ErrLeaseLost},
		{"timeout", waybill.Options{Lease: time.Minute, Timeout: 10 * time.Second}, 10 * time.Second, waybill.ErrTimeout},
		{"timeout within the lease's margin", waybill.Options{Lease: time.Minute, Timeout: time.Minute}, 55 * time.Second, waybill.ErrLeaseLost},
		{"heartbeat up to the timeout", waybill.Options{Lease: time.Minute, Timeout: 10 * time.Minute, Heartbeat: true},
			10 * time.Minute, waybill.ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var end untilEnd
				store := newLedger(registry(t, end.run, map[string]waybill.Options{"a": c.options}))
				queue := newQueue(t)
				enqueue(t, queue, store.claimed("a", 1))
				logger, log := logtest.New()
				w := start(t, worker.Config{Store: store, Backend: queue, Logger: logger})
				time.Sleep(time.Hour)
				w.stop()
				if end.after != c.after || !errors.Is(end.cause, c.cause) {
					t.Errorf("the run ended after %s with cause %v, want %s and %v", end.after, end.cause, c.after, c.cause)
				}
				// Nobody has claimed the row meanwhile, so the outcome counts.
				row := store.row(1)
				if row.Status != waybill.Failed || row.attempts != 1 || !strings.Contains(row.lastError, c.cause.Error()) {
					t.Errorf("row %+v, want a failed attempt that says %q", row, c.cause)
				}
				log.Want(t, 1, "level=WARN", "attempt failed", c.cause.Error())
			})
		})
	}
}

func TestRunCarriesItsDelivery(t *testing.T) {
	t.Parallel()
	var carried *waybill.Delivery
	b := newBench(t, registry(t, func(ctx context.Context, d *waybill.Delivery) error {
		if carried = waybill.DeliveryFrom(ctx); carried != d {
			t.Errorf("the context carries %+v, want %+v", carried, d)
		}
		return nil
	}, map[string]waybill.Options{"a": {Lease: time.Minute}}))
	w := b.start(worker.Config{})
	wantNil(t, b.deliver(1), 1)
	b.settled()
	w.stop()
	if carried.ID != 1 || carried.Receiver != "a" || carried.Attempt != 1 || carried.MaxAttempts != 5 || carried.Start != 1 ||
		carried.Claim.By != w.ID() || carried.Event.Name != "parcel.sent" || string(carried.Event.Payload) != `{}` || carried.Lease != time.Minute {
		t.Errorf("delivery %+v of event %+v", carried, carried.Event)
	}
}

func TestHeartbeatKeepsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		store := newLedger(registry(t, func(ctx context.Context, _ *waybill.Delivery) error {
			runs++
			time.Sleep(95 * time.Second) // three leases and a bit
			return ctx.Err()
		}, map[string]waybill.Options{"a": {Lease: 30 * time.Second, Timeout: 5 * time.Minute, Heartbeat: true}}))
		queue := newQueue(t)
		enqueue(t, queue, store.claimed("a", 1))
		var seen seen
		w := start(t, worker.Config{Store: store, Backend: queue, Observer: seen.observe})
		time.Sleep(2 * time.Minute)
		w.stop()
		taken, beats := store.times("Take")[0], store.times("Extend")
		if len(beats) != 9 {
			t.Fatalf("%d extensions in 95s, want 9", len(beats))
		}
		for i, beat := range beats {
			if at := beat.Sub(taken); at != time.Duration(i+1)*10*time.Second {
				t.Errorf("extension %d came after %s, want every 10s", i+1, at)
			}
		}
		if row := store.row(1); runs != 1 || row.Status != waybill.Succeeded || row.starts != 1 {
			t.Errorf("%d runs, row %+v; want one that succeeded", runs, row)
		}
		seen.wantCount(t, waybill.ObservedExtend, 9)
	})
}

func TestHeartbeatWithTheStoreDownEndsAtTheMargin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault func(ctx context.Context) error
	}{
		{"refused", func(context.Context) error { return errDown }},
		{"hanging", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var end untilEnd
				store := newLedger(registry(t, end.run, map[string]waybill.Options{
					"a": {Lease: 30 * time.Second, Timeout: 5 * time.Minute, Heartbeat: true},
				}))
				beats := 0
				store.on("Extend", func(ctx context.Context) error {
					if beats++; beats <= 2 {
						return nil // at 10 and 20s
					}
					return c.fault(ctx)
				})
				queue := newQueue(t)
				enqueue(t, queue, store.claimed("a", 1))
				logger, log := logtest.New()
				w := start(t, worker.Config{Store: store, Backend: queue, Logger: logger})
				time.Sleep(time.Minute)
				w.stop()
				if want := 47 * time.Second; end.after != want || !errors.Is(end.cause, waybill.ErrLeaseLost) {
					t.Errorf("the run ended after %s with cause %v, want %s and that the lease is lost", end.after, end.cause, want)
				}
				if beats < 3 {
					t.Errorf("%d extensions were tried, want more", beats)
				}
				if c.name == "refused" {
					log.Want(t, beats-2, "level=WARN", "lease not extended", "delivery_id=1", errDown.Error())
				}
			})
		})
	}
}

func TestHeartbeatThatIsRefusedEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var end untilEnd
		store := newLedger(registry(t, end.run, map[string]waybill.Options{
			"a": {Lease: 30 * time.Second, Timeout: 5 * time.Minute, Heartbeat: true},
		}))
		queue := newQueue(t)
		enqueue(t, queue, store.claimed("a", 1))
		logger, log := logtest.New()
		var seen seen
		w := start(t, worker.Config{Store: store, Backend: queue, Logger: logger, Observer: seen.observe})
		time.Sleep(15 * time.Second)
		claim := store.reclaim(1).Claim
		time.Sleep(time.Minute)
		w.stop()
		if want := 20 * time.Second; end.after.Round(time.Second) != want || !errors.Is(end.cause, waybill.ErrLeaseLost) {
			t.Errorf("the run ended after %s with cause %v, want %s and that the lease is lost", end.after, end.cause, want)
		}
		if row := store.row(1); row.Status != waybill.Claimed || row.Claim != claim || row.attempts != 0 {
			t.Errorf("row %+v, want it as the other claim left it", row)
		}
		seen.wantCount(t, waybill.ObservedLost, 1)
		seen.wantCount(t, waybill.ObservedAck, 0)
		log.Want(t, 0, "attempt failed")
		log.Want(t, 1, "level=WARN", "the run lost its row", "receiver=a", "declare a longer lease, or heartbeat")
	})
}

func TestHeartbeatOnADatabase(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := newBench(t, registry(t, func(ctx context.Context, _ *waybill.Delivery) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	}, map[string]waybill.Options{"a": {Lease: 4500 * time.Millisecond, Timeout: time.Minute, Heartbeat: true}}))
	w := b.start(worker.Config{})
	answers := b.deliver(1)
	poll.Until(t, "two extensions", func() bool {
		if len(b.reclaim()) > 0 {
			t.Fatal("the row was claimed anew in mid-run")
		}
		return len(b.seen.of(waybill.ObservedExtend)) == 2
	})
	if r := b.row(1); r.Lease.Time().Sub(r.TakenAt.Time()) < 7*time.Second {
		t.Errorf("row %+v, want its lease extended beyond %s", r, r.Lease.Time().Sub(r.TakenAt.Time()))
	}
	close(hold)
	wantNil(t, answers, 1)
	b.settled()
	w.stop()
	b.wantRow(1, waybill.Succeeded, 1, 1)
}

// The first run goes on although its lease is over, while a second one has the
// row: what the first has to say is no longer asked for.
// Trap 6: a fence that is read off the row agrees with whoever took it.
func TestRunThatOutlivesItsLeaseRecordsNothing(t *testing.T) {
	t.Parallel()
	for _, late := range []error{nil, errors.New("late failure")} {
		hold := make(chan struct{})
		b := newBench(t, registry(t, func(_ context.Context, d *waybill.Delivery) error {
			if d.Start == 1 {
				<-hold
				return late
			}
			return nil
		}, map[string]waybill.Options{"slow.mail": {Lease: time.Minute}}))
		first := b.start(worker.Config{})
		firstLog, firstSeen, firstQueue := b.log, b.seen, b.queue
		answers := b.deliver(1)
		poll.Until(t, "the first run", func() bool { return b.row(1).Starts == 1 })
		b.store.SetClockOffset(2 * time.Minute)
		b.queue, b.seen = newHand(), &seen{}
		second := b.start(worker.Config{})
		wantNil(t, b.queue.give(b.reclaim()...), 1)
		b.settled()
		before := b.wantRow(1, waybill.Succeeded, 1, 2)

		close(hold)
		wantNil(t, answers, 1)
		b.queue = firstQueue
		first.stop()
		second.stop()
		if after := b.row(1); after != before {
			t.Errorf("late outcome %v changed the row\nfrom %+v\nto   %+v", late, before, after)
		}
		firstLog.Want(t, 1, "level=WARN", "the run lost its row", `receiver=slow.mail`, "declare a longer lease, or heartbeat", "lease=1m0s")
		firstLog.Want(t, 0, "attempt failed")
		firstSeen.wantCount(t, waybill.ObservedLost, 1)
		firstSeen.wantCount(t, waybill.ObservedAck, 0)
	}
}
