package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker"
)

var errDown = errors.New("nobody answers")

// faults is a store whose calls can be made to fail, to hang or to lose their
// answer.
type faults struct {
	waybill.TxStore
	registry *waybill.Registry // stands for the store's own

	mu    sync.Mutex
	hooks map[string]hook
}

// hook stands around each call of a method.
type hook struct {
	before func(ctx context.Context) error // its error is the call's, which is not made
	after  func() error                    // its error is the call's, which was made
}

func newFaults(store waybill.TxStore) *faults {
	return &faults{TxStore: store, registry: store.Registry(), hooks: map[string]hook{}}
}

func (f *faults) on(method string, h hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[method] = h
}

func through[T any](ctx context.Context, f *faults, method string, call func() (T, error)) (T, error) {
	f.mu.Lock()
	h := f.hooks[method]
	f.mu.Unlock()
	var none T
	if h.before != nil {
		if err := h.before(ctx); err != nil {
			return none, err
		}
	}
	result, err := call()
	if h.after != nil {
		if lost := h.after(); lost != nil {
			return none, lost
		}
	}
	return result, err
}

func (f *faults) Registry() *waybill.Registry { return f.registry }

func (f *faults) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	return through(ctx, f, "Take", func() ([]*waybill.Delivery, error) { return f.TxStore.Take(ctx, request) })
}

func (f *faults) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	return through(ctx, f, "Look", func() ([]waybill.RowState, error) { return f.TxStore.Look(ctx, ids) })
}

func (f *faults) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return through(ctx, f, "Extend", func() ([]int64, error) { return f.TxStore.Extend(ctx, rows) })
}

func (f *faults) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	return through(ctx, f, "Ack", func() ([]int64, error) { return f.TxStore.Ack(ctx, acks) })
}

func (f *faults) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	return through(ctx, f, "GiveBack", func() ([]int64, error) { return f.TxStore.GiveBack(ctx, rows) })
}

func (f *faults) RunTx(ctx context.Context, ack waybill.Ack, run func(ctx context.Context, tx any) error) (bool, error) {
	return through(ctx, f, "RunTx", func() (bool, error) { return f.TxStore.RunTx(ctx, ack, run) })
}

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

// lines is a log that keeps its lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func newLog() (*slog.Logger, *lines) {
	kept := &lines{}
	return slog.New(slog.NewTextHandler(kept, &slog.HandlerOptions{Level: slog.LevelDebug})), kept
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

// with returns the lines that hold every one of the parts.
func (l *lines) with(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
next:
	for _, line := range l.all {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// wantLines fails the test unless exactly n lines hold the parts.
func (l *lines) wantLines(t *testing.T, n int, parts ...string) {
	t.Helper()
	if found := l.with(parts...); len(found) != n {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Errorf("%d lines with %q, want %d; the log:\n%s", len(found), parts, n, strings.Join(l.all, ""))
	}
}

// await waits for the line that ends the step a test has begun.
func (l *lines) await(t *testing.T, parts ...string) {
	t.Helper()
	eventually(t, "the line "+strings.Join(parts, " "), func() bool { return len(l.with(parts...)) > 0 })
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
		config.Logger, _ = newLog()
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

// eventually fails the test unless the condition comes true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
