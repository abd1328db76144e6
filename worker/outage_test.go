package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/worker"
)

// hang is a database that accepts and never answers: a store gives up after ten
// seconds.
func hang(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

func refuse(context.Context) error { return errDown }

func TestOutageAtTheTakeLeavesTheQueueAlone(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(context.Context) error{"refusing": refuse, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error { runs.Add(1); return nil },
					map[string]waybill.Options{"a": {}}))
				store.on("Take", fault)
				queue := newQueue(t)
				enqueue(t, queue, store.claimed("a", 10))
				logger, log := logtest.New()
				w := start(t, worker.Config{Store: store, Backend: queue, Slots: 3, Logger: logger})
				for range 60 {
					time.Sleep(time.Second)
					if consumed := queue.Room() - 990; consumed > 3 {
						t.Fatalf("%d messages were consumed for 3 slots", consumed)
					}
				}
				if len(log.Lines("level=WARN", "take did not succeed, trying again")) == 0 {
					t.Error("the outage was not logged")
				}
				store.on("Take", nil)
				time.Sleep(16 * time.Second)
				synctest.Wait()
				if runs.Load() != 10 || store.count(waybill.Succeeded) != 10 {
					t.Errorf("%d runs and %d successes after the outage, want 10", runs.Load(), store.count(waybill.Succeeded))
				}
				w.stop()
			})
		})
	}
}

func TestOutageAtTheAcknowledgementKeepsOutcomes(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(context.Context) error{"refusing": refuse, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error { runs.Add(1); return nil },
					map[string]waybill.Options{"a": {}}))
				store.on("Ack", fault)
				queue := newQueue(t)
				enqueue(t, queue, store.claimed("a", 400))
				w := start(t, worker.Config{Store: store, Backend: queue, Slots: 2})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				// 200 outcomes wait to be written, and those of both slots for a place among them.
				if runs.Load() != 202 {
					t.Errorf("%d receivers ran during the outage, want 202", runs.Load())
				}
				store.on("Ack", nil)
				time.Sleep(16 * time.Second)
				synctest.Wait()
				if runs.Load() != 400 || store.count(waybill.Succeeded) != 400 {
					t.Errorf("%d runs and %d successes after the outage, want 400", runs.Load(), store.count(waybill.Succeeded))
				}
				w.stop()
			})
		})
	}
}

// An acknowledgement that landed although its answer was lost is not taken for a
// lost claim.
func TestLostAnswerOfAnAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		returns error
		status  waybill.Status
		warns   int
	}{
		{"success", nil, waybill.Succeeded, 0},
		{"failure", errDown, waybill.Failed, 1},
		{"deferral", waybill.Defer(time.Minute), waybill.Failed, 1},
		{"death", waybill.Permanent(errDown), waybill.Dead, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error { runs.Add(1); return c.returns },
				map[string]waybill.Options{"a": {GiveUpAfter: time.Hour}}))
			var lost atomic.Bool
			b.fault.On("Ack", fault.Hook{After: func() error {
				if lost.CompareAndSwap(false, true) {
					return errDown
				}
				return nil
			}})
			w := b.start(worker.Config{})
			wantNil(t, b.deliver(1), 1)
			poll.Until(t, "the outcome to be seen", func() bool { return len(b.seen.of(waybill.ObservedAck)) == 1 })
			w.stop()
			attempts := 1
			if c.name == "deferral" {
				attempts = 0
			}
			b.wantRow(1, c.status, attempts, attempts)
			b.seen.wantCount(t, waybill.ObservedLost, 0)
			b.log.Want(t, c.warns, "level=WARN", "delivery_id=1")
			b.log.Want(t, 0, "the run lost its row")
			b.log.Want(t, 1, "level=WARN", "outcomes not recorded yet, trying again")
			if runs.Load() != 1 {
				t.Errorf("%d runs, want 1", runs.Load())
			}
		})
	}
}

// A take that landed although its answer was lost costs the row its lease, and
// never a second run beside the first.
func TestLostAnswerOfATake(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error { runs.Add(1); return nil },
		map[string]waybill.Options{"a": {Lease: time.Minute}}))
	var lost atomic.Bool
	b.fault.On("Take", fault.Hook{After: func() error {
		if lost.CompareAndSwap(false, true) {
			return errDown
		}
		return nil
	}})
	w := b.start(worker.Config{})
	wantNil(t, b.deliver(1), 1)
	if runs.Load() != 0 {
		t.Error("a row was run that the worker cannot know it holds")
	}
	if refused := b.seen.of(waybill.ObservedRefusal); len(refused) != 1 || refused[0].Refusal != waybill.RefusedTaken {
		t.Errorf("observed %+v, want the repeated take refused as taken", refused)
	}
	b.store.SetClockOffset(2 * time.Minute)
	wantNil(t, b.queue.give(b.reclaim()...), 1)
	b.settled()
	w.stop()
	b.wantRow(1, waybill.Succeeded, 1, 2)
}

func TestStopDuringAnOutageIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		method string
		fault  func(context.Context) error
		n      int
		bound  time.Duration
	}{
		// Messages whose rows were not taken are let go at once; a take that is
		// on its way ends with the drain.
		{"take refusing", "Take", refuse, 10, 0},
		{"take hanging", "Take", hang, 10, 5 * time.Second},
		// Outcomes are tried until the drain is over, and for two graces more.
		{"acknowledgement refusing", "Ack", refuse, 10, 5 * time.Second},
		{"acknowledgement hanging", "Ack", hang, 10, 9 * time.Second},
		{"many acknowledgements hanging", "Ack", hang, 400, 9 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLedger(registry(t, succeed, map[string]waybill.Options{"a": {}}))
				store.on(c.method, c.fault)
				queue := newQueue(t)
				messages := store.claimed("a", c.n)
				enqueue(t, queue, messages)
				logger, log := logtest.New()
				w := start(t, worker.Config{Store: store, Backend: queue, Drain: 5 * time.Second, Logger: logger})
				time.Sleep(time.Minute)
				begun := time.Now()
				w.stop()
				if took := time.Since(begun); took > c.bound {
					t.Errorf("the stop took %s, want at most %s", took, c.bound)
				}
				if c.method == "Take" {
					for i, m := range messages {
						if row := store.row(m.DeliveryID); row.Claim != m.Claim || row.starts != 0 {
							t.Errorf("row %d is %+v, want it untouched", i, row)
						}
					}
					return
				}
				if got := len(log.Lines("level=ERROR", "outcome not recorded, the row waits for its lease")); got != min(c.n, 210) {
					t.Errorf("%d outcomes were reported as not recorded, want %d", got, min(c.n, 210))
				}
			})
		})
	}
}

func TestGiveBackThatFailsIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, func(ctx context.Context, _ *waybill.Delivery) error { <-ctx.Done(); return ctx.Err() },
			map[string]waybill.Options{"a": {}}))
		store.on("GiveBack", refuse)
		queue := newHand()
		logger, log := logtest.New()
		w := start(t, worker.Config{Store: store, Backend: queue, Drain: time.Second, Logger: logger, Slots: 1})
		running := queue.give(store.claimed("a", 1)...)
		time.Sleep(time.Second)
		waiting := queue.give(store.claimed("a", 1)...)
		unknown := queue.give(store.claimed("gone", 1)...)
		synctest.Wait()
		w.stop()
		wantNil(t, running, 1)
		for _, answers := range []<-chan error{waiting, unknown} {
			if err := <-answers; !errors.Is(err, errDown) {
				t.Errorf("the queue was answered %v, want the store's error: its message may be tried again", err)
			}
		}
		log.Want(t, 1, "level=WARN", "interrupted row not given back, it waits for its lease", "delivery_id=1")
	})
}

func TestUnknownReceiverThatCannotBeGivenBackIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, succeed, nil))
		store.on("GiveBack", refuse)
		queue := newHand()
		logger, log := logtest.New()
		w := start(t, worker.Config{Store: store, Backend: queue, Logger: logger})
		wantNil(t, queue.give(store.claimed("gone", 1)...), 1)
		w.stop()
		log.Want(t, 1, "level=WARN", "row not given back, it waits for its lease", "delivery_id=1", errDown.Error())
	})
}
