package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/worker"
)

// gauge counts how many runs there are at a time.
type gauge struct{ now, most, runs atomic.Int64 }

func (g *gauge) enter() {
	g.runs.Add(1)
	now := g.now.Add(1)
	for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

func newQueue(t *testing.T) *local.Backend {
	t.Helper()
	queue, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

func enqueue(t *testing.T, queue *local.Backend, messages []waybill.Message) {
	t.Helper()
	if _, err := queue.Enqueue(context.Background(), messages); err != nil {
		t.Fatal(err)
	}
}

// Two queues are given the whole concurrency each; the slots are what counts.
func TestSlotsAreUsedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		const slots, runs = 4, 40
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error {
			g.enter()
			defer g.leave()
			time.Sleep(time.Second)
			return nil
		}, map[string]waybill.Options{"a": {}}))
		first, second := newQueue(t), newQueue(t)
		enqueue(t, first, store.claimed("a", runs/2))
		enqueue(t, second, store.claimed("a", runs/2))
		w := start(t, worker.Config{Store: store, Backend: waybill.Join(first, second), Slots: slots})
		for i := range runs / slots {
			time.Sleep(time.Second - 500*time.Millisecond)
			synctest.Wait()
			if now := g.now.Load(); now != slots {
				t.Errorf("%d receivers run in second %d, want %d", now, i, slots)
			}
			time.Sleep(500*time.Millisecond + 10*time.Millisecond) // and what batching costs
		}
		time.Sleep(time.Second)
		w.stop()
		if g.most.Load() != slots || g.runs.Load() != runs || store.count(waybill.Succeeded) != runs {
			t.Errorf("%d runs, at most %d at a time, %d succeeded; want %d, %d and %d",
				g.runs.Load(), g.most.Load(), store.count(waybill.Succeeded), runs, slots, runs)
		}
	})
}

// A slot is free when its receiver has returned, not when the outcome is written.
func TestSlotDoesNotWaitForTheAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error {
			g.enter()
			defer g.leave()
			return nil
		}, map[string]waybill.Options{"a": {}}))
		store.on("Ack", func(context.Context) error { time.Sleep(time.Minute); return nil })
		queue := newQueue(t)
		enqueue(t, queue, store.claimed("a", 20))
		w := start(t, worker.Config{Store: store, Backend: queue, Slots: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		if g.runs.Load() != 20 {
			t.Errorf("%d runs while the first acknowledgement is on its way, want all 20", g.runs.Load())
		}
		time.Sleep(3 * time.Minute)
		w.stop()
		if got := store.count(waybill.Succeeded); got != 20 {
			t.Errorf("%d succeeded, want 20", got)
		}
	})
}

// Takes of all slots share a statement; a lone one is sent at once when the slots
// are taken, and soon otherwise.
func TestTakesAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, func(ctx context.Context, _ *waybill.Delivery) error {
			time.Sleep(time.Second)
			return nil
		}, map[string]waybill.Options{"a": {}}))
		queue := newQueue(t)
		w := start(t, worker.Config{Store: store, Backend: queue, Slots: 50})
		for _, c := range []struct {
			n    int
			wait time.Duration
		}{{1, 2 * time.Millisecond}, {30, 2 * time.Millisecond}, {19, 0}} { // the last takes the last slot
			begun := time.Now()
			calls := len(store.times("Take"))
			enqueue(t, queue, store.claimed("a", c.n))
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			times := store.times("Take")[calls:]
			if c.wait > 0 && (len(times) != 1 || times[0].Sub(begun) != c.wait) {
				t.Errorf("%d messages were taken in %d statements, the first after %s; want one after %s",
					c.n, len(times), times[0].Sub(begun), c.wait)
			}
			if c.wait == 0 && (len(times) != 1 || times[0].Sub(begun) != 0) {
				t.Errorf("%d messages for the last slots were taken in %d statements, the last after %s; want one at once",
					c.n, len(times), times[len(times)-1].Sub(begun))
			}
		}
		time.Sleep(3 * time.Second)
		w.stop()
	})
}
