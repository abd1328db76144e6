package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

var errDown = errors.New("nobody answers")

// faults is a Store whose calls are counted and can be made to fail, to hang or
// to let something happen in between.
type faults struct {
	waybill.Store
	registry *waybill.Registry // stands for the store's own, if set

	mu     sync.Mutex
	calls  map[string]int
	before map[string]func(ctx context.Context) error // its error is the call's
	after  map[string]func()
}

func newFaults(store waybill.Store) *faults {
	return &faults{
		Store: store, registry: store.Registry(), calls: map[string]int{},
		before: map[string]func(context.Context) error{}, after: map[string]func(){},
	}
}

// onCall has f called before each call of the method, onReturn after each.
func (f *faults) onCall(method string, hook func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before[method] = hook
}

func (f *faults) onReturn(method string, hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after[method] = hook
}

func (f *faults) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func through[T any](ctx context.Context, f *faults, method string, call func() (T, error)) (T, error) {
	f.mu.Lock()
	f.calls[method]++
	before, after := f.before[method], f.after[method]
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			var none T
			return none, err
		}
	}
	if after != nil {
		defer after()
	}
	return call()
}

func (f *faults) Registry() *waybill.Registry { return f.registry }

func (f *faults) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return through(ctx, f, "Claim", func() ([]waybill.ClaimedRow, error) { return f.Store.Claim(ctx, request) })
}

func (f *faults) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return through(ctx, f, "ClaimLapsed", func() ([]waybill.ClaimedRow, error) { return f.Store.ClaimLapsed(ctx, request) })
}

func (f *faults) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	return through(ctx, f, "GiveBack", func() ([]int64, error) { return f.Store.GiveBack(ctx, rows) })
}

func (f *faults) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return through(ctx, f, "Extend", func() ([]int64, error) { return f.Store.Extend(ctx, rows) })
}

func (f *faults) Listen(ctx context.Context, wake func()) error {
	_, err := through(ctx, f, "Listen", func() (struct{}, error) { return struct{}{}, f.Store.Listen(ctx, wake) })
	return err
}

// queue is a TaskBackend that remembers what it was handed.
type queue struct {
	mu      sync.Mutex
	batches [][]waybill.Message
	// answer says what becomes of a batch; nil accepts all of it.
	answer func(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error)
}

func (q *queue) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	q.mu.Lock()
	q.batches = append(q.batches, messages)
	answer := q.answer
	q.mu.Unlock()
	if answer == nil {
		return accepted(len(messages)), nil
	}
	return answer(ctx, messages)
}

func (q *queue) answers(answer func(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answer = answer
}

// sizes returns how many messages each batch had.
func (q *queue) sizes() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	sizes := make([]int, len(q.batches))
	for i, batch := range q.batches {
		sizes[i] = len(batch)
	}
	return sizes
}

// ids returns the deliveries it was offered, in order.
func (q *queue) ids() []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ids []int64
	for _, batch := range q.batches {
		for _, message := range batch {
			ids = append(ids, message.DeliveryID)
		}
	}
	return ids
}

func accepted(n int) []waybill.Result { return waybill.AllResults(n, waybill.EnqueueAccepted, nil) }

// down is the answer of a queue that nothing reaches.
func down(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	return waybill.AllResults(len(messages), waybill.EnqueueNotSent, errDown), errDown
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

func newRelay(t *testing.T, config relay.Config) *relay.Relay {
	t.Helper()
	if config.Logger == nil {
		config.Logger, _ = newLog()
	}
	r, err := relay.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run starts the relay; stop ends it and fails the test unless Run returns nil in
// time. The test's end stops it as well.
func run(t *testing.T, r *relay.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		wantReturn(t, done)
	})
	t.Cleanup(stop)
	return stop
}

// wantReturn fails the test unless Run returns nil soon.
func wantReturn(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run did not return")
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

func once(t *testing.T, r *relay.Relay, limit, want int) {
	t.Helper()
	got, err := r.Once(t.Context(), limit)
	if err != nil {
		t.Fatalf("Once: %v", err)
	}
	if got != want {
		t.Fatalf("Once handed off %d, want %d", got, want)
	}
}

// declare returns a registry with a receiver of every event for each of the
// options, named by lane, site and number unless told otherwise.
func declare(t *testing.T, receivers map[string]waybill.Options) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	for key, options := range receivers {
		reg.Add(waybill.Receiver{
			Key: key, Event: waybill.AnyEvent, Options: options,
			Run: func(context.Context, *waybill.Delivery) error { return nil },
		})
	}
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func message(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

// narrowQueue is a queue that has each of the rooms in turn when it is asked, and
// then room for everything.
type narrowQueue struct {
	queue
	freed chan struct{}
	rooms []int
}

func (q *narrowQueue) Room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.rooms) == 0 {
		return 1000
	}
	room := q.rooms[0]
	q.rooms = q.rooms[1:]
	return room
}

func (q *narrowQueue) Freed() <-chan struct{} { return q.freed }

// consume sends what the consumer brings to got, until the test ends.
func consume(t *testing.T, consumer waybill.Consumer, got chan<- waybill.Message) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- consumer.Consume(ctx, 1, func(_ context.Context, m waybill.Message) error {
			select {
			case got <- m:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		wantReturn(t, done)
	})
}

func contains(ids []int64, id int64) bool { return slices.Contains(ids, id) }
