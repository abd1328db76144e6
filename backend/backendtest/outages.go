package backendtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// senderHung: a server that does not answer holds Enqueue no longer than its
// deadline, and nobody claims to know what became of the messages.
func senderHung(t *testing.T, s *scene) {
	w := s.newWorker()
	s.enqueue(t, s.Backend, s.claim(t, 5)) // so that there is a connection
	messages := s.claim(t, 20)
	release := s.Hang(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		begun := time.Now()
		results, err := s.Backend.Enqueue(ctx, messages)
		cancel()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("enqueue took %v, with a deadline of 400ms", took)
		}
		if err == nil {
			t.Error("the queue called itself well")
		}
		wantAll(t, results, len(messages), waybill.EnqueueUnknown, waybill.EnqueueNotSent)
	}
	release()
	c := s.consume(t, 4, w.handle)
	s.settle(t)
	c.stop(t)
	s.wantOnce(t, w)
}

// consumerHung: a consumer can be ended while its server does not answer.
func consumerHung(t *testing.T, s *scene) {
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	s.enqueue(t, s.Backend, s.claim(t, 5))
	s.awaitSucceeded(t, 5)
	release := s.Hang(t)
	c.stop(t)
	release()
	c = s.consume(t, 4, w.handle)
	s.rows.add(receiver, 5)
	s.settle(t)
	c.stop(t)
	s.wantOnce(t, w)
}

// senderDown: a message that met no server was not sent, and its row need not
// wait for its lease.
func senderDown(t *testing.T, s *scene) {
	w := s.newWorker()
	s.enqueue(t, s.Backend, s.claim(t, 5))
	messages := s.claim(t, 20)
	up := s.Down(t)
	// A connection may have been taken for alive at first.
	await(t, "every message is known not to be sent", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		results, err := s.Backend.Enqueue(ctx, messages)
		if err == nil {
			t.Fatal("the queue called itself well")
		}
		wantAll(t, results, len(messages), waybill.EnqueueUnknown, waybill.EnqueueNotSent)
		for _, result := range results {
			if result.Status != waybill.EnqueueNotSent {
				return false
			}
		}
		return true
	})
	up()
	c := s.consume(t, 4, w.handle)
	s.settle(t)
	c.stop(t)
	s.wantOnce(t, w)
}

// consumerDown: a consumer waits for a server that is not there yet, and can be
// ended while it waits.
func consumerDown(t *testing.T, s *scene) {
	w := s.newWorker()
	s.enqueue(t, s.Backend, s.claim(t, 5))
	up := s.Down(t)
	c := s.consume(t, 4, w.handle)
	never(t, "consume ended without a server", c.ended)
	c.stop(t)
	c = s.consume(t, 4, w.handle)
	up()
	s.settle(t)
	c.stop(t)
	s.wantOnce(t, w)
}

// outage: a consumer lives through an outage, and so do the calls that run.
func outage(t *testing.T, s *scene) {
	w := s.newWorker()
	var begun atomic.Int64
	gate := make(chan struct{})
	c := s.consume(t, 4, func(ctx context.Context, m waybill.Message) error {
		begun.Add(1)
		<-gate
		if err := ctx.Err(); err != nil {
			t.Errorf("the outage ended the context of a call: %v", err)
		}
		return w.handle(ctx, m)
	})
	s.enqueue(t, s.Backend, s.claim(t, 10))
	await(t, "calls run", func() bool { return begun.Load() == 4 })
	up := s.Down(t)
	never(t, "consume ended with the server", c.ended)
	close(gate)
	s.awaitSucceeded(t, 4)
	up()
	s.settle(t)
	c.running(t)
	c.stop(t)
	s.wantOnce(t, w)
}

// restart: a server that comes back empty costs a lease, and no restart of ours.
func restart(t *testing.T, s *scene) {
	w := s.newWorker()
	var first atomic.Int64
	gate := make(chan struct{})
	c := s.consume(t, 4, func(ctx context.Context, m waybill.Message) error {
		if first.Add(1) > 10 {
			<-gate // so that messages are in the queue when it dies
		}
		return w.handle(ctx, m)
	})
	s.enqueue(t, s.Backend, s.claim(t, 60))
	s.awaitSucceeded(t, 10)
	s.Restart(t)
	close(gate)
	s.rows.add(receiver, 20)
	s.settle(t)
	c.running(t)
	c.stop(t)
	s.wantOnce(t, w)
}
