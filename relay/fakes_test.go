package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/relay"
)

var errDown = errors.New("nobody answers")

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

// newRelay returns a relay without a window: nobody takes what these queues have.
func newRelay(t *testing.T, config relay.Config) *relay.Relay {
	t.Helper()
	config.WindowOff = true
	return newWindowed(t, config)
}

// newWindowed returns a relay as users have it.
func newWindowed(t *testing.T, config relay.Config) *relay.Relay {
	t.Helper()
	if config.Logger == nil {
		config.Logger, _ = logtest.New()
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
