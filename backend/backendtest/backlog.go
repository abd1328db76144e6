package backendtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// backlog: what the queue says of itself is so, sooner or later, and what it cannot
// say is unknown. How many messages are ready it can say whenever there are some.
func backlog(t *testing.T, s *scene) {
	s.awaitBacklog(t, "an empty queue", 0, 0, 0)
	s.enqueue(t, s.Backend, s.claim(t, 7))
	s.awaitBacklog(t, "seven messages", 7, 0, 0)

	w := s.newWorker()
	gate := make(chan struct{})
	c := s.consume(t, 3, func(ctx context.Context, m waybill.Message) error {
		<-gate
		return w.handle(ctx, m)
	})
	s.awaitBacklog(t, "three of seven in hand", 4, 3, 3)
	close(gate)
	s.awaitSucceeded(t, 7)
	s.awaitBacklog(t, "an idle consumer", 0, 0, 3)
	c.stop(t)
	s.awaitBacklog(t, "no consumer", 0, 0, 0)
	s.wantOnce(t, w)
}

// awaitBacklog waits until all that the queue knows of itself is as it should be.
func (s *scene) awaitBacklog(t *testing.T, when string, ready, running, consumers int64) {
	t.Helper()
	var last string
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		b, err := s.Backend.Backlog(ctx)
		cancel()
		if err != nil {
			t.Fatalf("backlog with %s: %v", when, err)
		}
		err = errors.Join(
			wantReading("ready", b.Ready, ready, ready > 0),
			wantReading("running", b.Running, running, false),
			wantReading("consumers", b.Consumers, consumers, false),
			wantOldest(b.Oldest, ready > 0),
		)
		if err == nil {
			return
		}
		last = err.Error()
		if time.Now().After(deadline) {
			t.Fatalf("backlog with %s, after %v: %s", when, patience, last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func wantReading(name string, reading waybill.Reading[int64], want int64, needed bool) error {
	got, known := reading.Value()
	switch {
	case !known && needed:
		return fmt.Errorf("%s is unknown, want %d", name, want)
	case known && got != want:
		return fmt.Errorf("%s is %d, want %d", name, got, want)
	}
	return nil
}

func wantOldest(reading waybill.Reading[time.Duration], waiting bool) error {
	got, known := reading.Value()
	if known && (got < 0 || got > 2*patience || !waiting && got != 0) {
		return fmt.Errorf("the oldest has waited %s", got)
	}
	return nil
}

// backlogHung: a server that does not answer is asked for no longer than its
// deadline, and what it did not say is not made up.
func backlogHung(t *testing.T, s *scene) {
	s.enqueue(t, s.Backend, s.claim(t, 3))
	release := s.Hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	begun := time.Now()
	b, err := s.Backend.Backlog(ctx)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("backlog took %v, with a deadline of 400ms", took)
	}
	wantNothing(t, b, err)
	release()
	s.recoveredBacklog(t, 3)
}

// backlogDown: without a server nothing is known, and an empty queue is not what
// is told.
func backlogDown(t *testing.T, s *scene) {
	s.enqueue(t, s.Backend, s.claim(t, 3))
	up := s.Down(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b, err := s.Backend.Backlog(ctx)
	wantNothing(t, b, err)
	up()
	s.recoveredBacklog(t, 3)
}

func wantNothing(t *testing.T, b waybill.Backlog, err error) {
	t.Helper()
	if err == nil {
		t.Error("the backlog was told by a server that does not answer")
	}
	if b != (waybill.Backlog{}) {
		t.Errorf("without an answer the backlog is %+v", b)
	}
}

// recoveredBacklog waits until the queue can be asked again.
func (s *scene) recoveredBacklog(t *testing.T, ready int64) {
	t.Helper()
	await(t, "the backlog is known again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		b, err := s.Backend.Backlog(ctx)
		return err == nil && wantReading("ready", b.Ready, ready, true) == nil
	})
}
