package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/worker"
)

func TestStopLetsReceiversFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, func(ctx context.Context, _ *waybill.Delivery) error {
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}, map[string]waybill.Options{"a": {}}))
		queue := newQueue(t)
		enqueue(t, queue, store.claimed("a", 5))
		w := start(t, worker.Config{Store: store, Backend: queue, Slots: 3})
		time.Sleep(time.Second)
		synctest.Wait()
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("the stop took %s, want the 9s that receivers had to go", took)
		}
		if got := store.count(waybill.Succeeded); got != 3 {
			t.Errorf("%d deliveries succeeded, want the 3 that ran", got)
		}
		if room := queue.Room(); room != 1000-2 {
			t.Errorf("%d messages are left in the queue, want 2", 1000-room)
		}
	})
}

func TestStopOfAnIdleWorkerIsImmediate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, worker.Config{Store: newLedger(registry(t, succeed, nil)), Backend: newQueue(t)})
		time.Sleep(time.Second)
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took != 0 {
			t.Errorf("the stop took %s", took)
		}
	})
}

func TestPastTheDrainReceiversAreCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var end untilEnd
		store := newLedger(registry(t, func(ctx context.Context, d *waybill.Delivery) error {
			if d.Receiver == "stubborn" { // and reaches its end all the same
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			}
			return end.run(ctx, d)
		}, map[string]waybill.Options{"a": {}, "stubborn": {}}))
		queue := newQueue(t)
		enqueue(t, queue, append(store.claimed("a", 1), store.claimed("stubborn", 1)...))
		logger, log := logtest.New()
		var seen seen
		w := start(t, worker.Config{Store: store, Backend: queue, Drain: 5 * time.Second, Logger: logger, Observer: seen.observe})
		time.Sleep(time.Minute)
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took < 6*time.Second || took > 6100*time.Millisecond {
			t.Errorf("the stop took %s, want the drain of 5s and the second of the stubborn one", took)
		}
		if after := end.after.Round(time.Second); after != 65*time.Second || !errors.Is(end.cause, waybill.ErrStopping) {
			t.Errorf("the run ended after %s with cause %v, want 65s and that the worker stops", end.after, end.cause)
		}
		if row := store.row(1); row.Status != waybill.Claimed || row.attempts != 0 || row.starts != 0 || row.HandedOffAt != 0 || row.lease.After(time.Now()) {
			t.Errorf("row %+v, want it given back as if it had never begun", row)
		}
		if row := store.row(2); row.Status != waybill.Succeeded || row.attempts != 1 || row.starts != 1 {
			t.Errorf("row %+v, want the success of a run that came to its end", row)
		}
		log.Want(t, 0, "level=WARN")
		seen.wantCount(t, waybill.ObservedGiveBack, 1)
	})
}

func TestRowThatWasCutOffRunsElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	b := newBench(t, registry(t, func(ctx context.Context, d *waybill.Delivery) error {
		if cut.CompareAndSwap(false, true) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, map[string]waybill.Options{"a": {}}))
	first := b.start(worker.Config{Drain: time.Millisecond})
	answers := b.deliver(1)
	poll.Until(t, "the run", cut.Load)
	first.stop()
	wantNil(t, answers, 1)
	if r := b.wantRow(1, waybill.Claimed, 0, 0); !r.GivenBack() {
		t.Errorf("row %+v, want it given back", r)
	}
	b.queue = newHand()
	second := b.start(worker.Config{})
	wantNil(t, b.queue.give(b.reclaim()...), 1)
	b.settled()
	second.stop()
	b.wantRow(1, waybill.Succeeded, 1, 1)
}

func TestMessagesWithoutASlotAreGivenBackAtTheStop(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var runs atomic.Int64
	b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error {
		runs.Add(1)
		<-hold
		return nil
	}, map[string]waybill.Options{"a": {}}))
	w := b.start(worker.Config{Slots: 1})
	b.fire(4, "parcel.sent", `{}`)
	messages := b.claim()
	running := b.queue.give(messages[0])
	poll.Until(t, "the run", func() bool { return runs.Load() == 1 })
	waiting := b.queue.give(messages[1:]...)
	w.cancel()
	wantNil(t, waiting, 3)
	close(hold)
	wantNil(t, running, 1)
	if err := w.ended(); err != nil {
		t.Error(err)
	}
	b.wantRow(1, waybill.Succeeded, 1, 1)
	for id := range int64(3) {
		if r := b.wantRow(id+2, waybill.Claimed, 0, 0); !r.GivenBack() {
			t.Errorf("row %+v, want it given back", r)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("%d runs, want none but the first", runs.Load())
	}
	b.log.Want(t, 0, "level=WARN")
}

// A message that still comes finds free slots, and a worker that takes no more.
func TestMessageThatComesAfterTheStopIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error { runs++; return nil },
			map[string]waybill.Options{"a": {}}))
		queue := newHand()
		queue.linger = make(chan struct{})
		w := start(t, worker.Config{Store: store, Backend: queue})
		synctest.Wait()
		w.cancel()
		wantNil(t, queue.give(store.claimed("a", 20)...), 20)
		close(queue.linger)
		if err := w.ended(); err != nil || runs != 0 {
			t.Errorf("%d runs after the stop and %v, want none and nil", runs, err)
		}
		for id := range int64(20) {
			if row := store.row(id + 1); row.HandedOffAt != 0 || row.starts != 0 {
				t.Errorf("row %+v, want it given back", row)
			}
		}
	})
}

func TestReceiverThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error { <-hold; return nil },
			map[string]waybill.Options{"a": {}}))
		queue := newQueue(t)
		enqueue(t, queue, store.claimed("a", 2))
		w := start(t, worker.Config{Store: store, Backend: queue, Drain: 5 * time.Second})
		time.Sleep(time.Second)
		begun := time.Now()
		w.cancel()
		err := w.ended()
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("Run returned %s after the stop, want the drain of 5s and 2s of grace", took)
		}
		if err == nil || !strings.Contains(err.Error(), "2 receivers did not return") {
			t.Errorf("Run returned %v, want an error that counts the receivers left behind", err)
		}
		if row := store.row(1); row.Status != waybill.Claimed || row.Claim.By != w.ID() {
			t.Errorf("row %+v, want it still held: it runs", row)
		}
		time.Sleep(time.Minute)
		close(hold) // they return after all, and nothing of the worker stays behind
		synctest.Wait()
		if got := store.count(waybill.Succeeded); got != 2 {
			t.Errorf("%d late outcomes are recorded, want 2", got)
		}
	})
}

func TestQueueThatCannotBeConsumedEndsTheWorkerDrained(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var runs atomic.Int64
	b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error {
		runs.Add(1)
		<-hold
		return nil
	}, map[string]waybill.Options{"a": {}}))
	w := b.start(worker.Config{Slots: 2})
	b.fire(3, "parcel.sent", `{}`)
	messages := b.claim()
	answers := b.queue.give(messages...)
	poll.Until(t, "two runs", func() bool { return runs.Load() == 2 })
	broken := errors.New("no such queue")
	b.queue.end <- broken
	select {
	case err := <-w.done:
		t.Fatalf("Run returned %v while receivers ran", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(hold)
	if err := w.ended(); !errors.Is(err, broken) {
		t.Errorf("Run returned %v, want the queue's error", err)
	}
	wantNil(t, answers, 3)
	succeeded := 0
	for _, r := range b.rows() {
		if r.Status == waybill.Succeeded {
			succeeded++
		}
	}
	if succeeded < 2 {
		t.Errorf("%d deliveries succeeded, want those that ran", succeeded)
	}
}
