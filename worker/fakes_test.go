package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/worker"
)

var errDown = errors.New("nobody answers")

// hand is a queue whose messages the test hands over itself, as many at a time as
// it likes.
type hand struct {
	handles chan waybill.Handler
	end     chan error    // ends Consume at once
	linger  chan struct{} // Consume, if this is set, brings messages until it is closed
	calls   sync.WaitGroup
}

func newHand() *hand { return &hand{handles: make(chan waybill.Handler, 1), end: make(chan error, 1)} }

func (h *hand) Consume(ctx context.Context, _ int, handle waybill.Handler) error {
	h.handles <- handle
	defer h.calls.Wait()
	select {
	case <-ctx.Done():
		if h.linger != nil {
			<-h.linger
		}
		return nil
	case err := <-h.end:
		return err
	}
}

// give hands messages to the worker, all at once, and returns what it answers.
func (h *hand) give(messages ...waybill.Message) <-chan error {
	handle := <-h.handles
	h.handles <- handle
	answers := make(chan error, len(messages))
	h.calls.Add(len(messages))
	for _, message := range messages {
		go func() {
			defer h.calls.Done()
			answers <- handle(context.Background(), message)
		}()
	}
	return answers
}

// wantNil fails the test unless n answers come and are nil.
func wantNil(t *testing.T, answers <-chan error, n int) {
	t.Helper()
	for range n {
		select {
		case err := <-answers:
			if err != nil {
				t.Errorf("the queue was answered %v, want nil", err)
			}
		case <-time.After(15 * time.Second):
			t.Fatal("the queue was not answered")
		}
	}
}

// seen is an Observer that keeps what it is told.
type seen struct {
	mu  sync.Mutex
	all []waybill.Observation
}

func (s *seen) observe(o waybill.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
}

func (s *seen) of(kind waybill.ObservationKind) []waybill.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []waybill.Observation
	for _, o := range s.all {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

func (s *seen) wantCount(t *testing.T, kind waybill.ObservationKind, n int) {
	t.Helper()
	if got := s.of(kind); len(got) != n {
		t.Errorf("observed %d of kind %s, want %d: %+v", len(got), kind, n, got)
	}
}

// work is a worker that runs.
type work struct {
	*worker.Worker
	*testing.T
	cancel context.CancelFunc
	done   chan error
}

// start runs a worker until the test stops it, or ends.
func start(t *testing.T, config worker.Config) *work {
	t.Helper()
	if config.Logger == nil {
		config.Logger, _ = logtest.New()
	}
	w, err := worker.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := &work{Worker: w, T: t, cancel: cancel, done: make(chan error, 1)}
	go func() { running.done <- w.Run(ctx) }()
	t.Cleanup(cancel)
	return running
}

// ended waits for Run and returns its error.
func (w *work) ended() error {
	w.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(50 * time.Second):
		w.Fatal("Run did not return")
		return nil
	}
}

// stop ends the worker and fails the test unless Run returns nil.
func (w *work) stop() {
	w.Helper()
	w.cancel()
	if err := w.ended(); err != nil {
		w.Errorf("Run returned %v, want nil", err)
	}
}
