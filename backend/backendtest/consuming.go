package backendtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/waybill-go/waybill"
)

// handlerError: a handler's error ends neither the consumer nor the debt.
func handlerError(t *testing.T, s *scene) {
	w := s.newWorker()
	var failed atomic.Int64
	c := s.consume(t, 2, func(ctx context.Context, m waybill.Message) error {
		if m.DeliveryID%2 == 0 && failed.Add(1) <= 5 {
			return errors.New("the store is out of reach")
		}
		return w.handle(ctx, m)
	})
	s.enqueue(t, s.Backend, s.claim(t, 20))
	await(t, "the handler fails five times", func() bool { return failed.Load() >= 5 })
	if s.Redelivers {
		s.awaitSucceeded(t, 20) // without anybody's help
	}
	s.settle(t)
	c.running(t)
	c.stop(t)
	s.wantOnce(t, w)
}

// concurrency: as many handler calls at a time as were asked for, never more.
func concurrency(t *testing.T, s *scene) {
	const limit = 4
	w := s.newWorker()
	var now, most atomic.Int64
	gate := make(chan struct{})
	c := s.consume(t, limit, func(ctx context.Context, m waybill.Message) error {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-gate
		defer now.Add(-1)
		return w.handle(ctx, m)
	})
	s.enqueue(t, s.Backend, s.claim(t, 40))
	await(t, "all calls that may run do", func() bool { return now.Load() == limit })
	never(t, "more calls run than may", func() bool { return now.Load() > limit })
	close(gate)
	s.awaitSucceeded(t, 40)
	c.stop(t)
	if n := most.Load(); n != limit {
		t.Errorf("up to %d calls ran at a time, want %d", n, limit)
	}
	s.wantOnce(t, w)
}

// stopWhileRunning: Consume ends after the calls that run and begins no other. The
// messages that were not handed over are there for the next consumer.
func stopWhileRunning(t *testing.T, s *scene) {
	const limit = 3
	w := s.newWorker()
	var begun atomic.Int64
	gate := make(chan struct{})
	c := s.consume(t, limit, func(ctx context.Context, m waybill.Message) error {
		begun.Add(1)
		<-gate
		return w.handle(ctx, m)
	})
	s.enqueue(t, s.Backend, s.claim(t, 12))
	await(t, "the calls run", func() bool { return begun.Load() == limit })
	c.cancel()
	never(t, "consume ended while calls ran", c.ended)
	close(gate)
	c.stop(t)
	if n := begun.Load(); n != limit {
		t.Errorf("%d calls began, want %d and none after the end was asked for", n, limit)
	}
	s.awaitSucceeded(t, limit)

	next := s.newWorker()
	c = s.consume(t, limit, next.handle)
	s.awaitSucceeded(t, 12) // no lease lapsed, nothing was enqueued again
	c.stop(t)
	s.wantOnce(t, w, next)
}

// stoppedBefore: a consumer whose context has ended takes nothing, and one that is
// asked for nothing is a mistake.
func stoppedBefore(t *testing.T, s *scene) {
	w := s.newWorker()
	s.enqueue(t, s.Backend, s.claim(t, 3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backend.Consume(ctx, 2, w.handle); err != nil {
		t.Errorf("consume: %v", err)
	}
	if err := s.Backend.Consume(t.Context(), 0, w.handle); err == nil {
		t.Error("consume with no concurrency returned no error")
	}
	if n := len(w.arrivals()); n != 0 {
		t.Errorf("%d messages were handed over", n)
	}
	c := s.consume(t, 2, w.handle)
	s.awaitSucceeded(t, 3)
	c.stop(t)
	s.wantOnce(t, w)
}

// crash: the process of a consumer dies with messages in hand. Their rows run once,
// on a redelivered copy or on a new one.
func crash(t *testing.T, s *scene) {
	s.enqueue(t, s.Backend, s.claim(t, 8))
	inHand := s.Crash(t, 4)
	// One row was taken before the crash, the others were on the way to it.
	dead := s.newWorker()
	if taken, err := waybill.Take(t.Context(), s.rows, dead.id, inHand[:1]); err != nil || taken[0].Refused != "" {
		t.Fatalf("take for the worker that died: %v, %v", taken, err)
	}
	w := s.newWorker()
	c := s.consume(t, 2, w.handle)
	if s.Redelivers {
		s.awaitSucceeded(t, 7)
	}
	s.awaitSucceeded(t, 4)
	s.rows.pass(lease)
	s.settle(t)
	c.stop(t)
	s.wantOnce(t, w)
}
