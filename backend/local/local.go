// Package local is a queue inside the process: a bounded buffer between a relay
// and the receivers that run beside it. It serves services whose relay and worker
// share a process, as the Backend of both; receivers that are declared with
// site=relay; and tests.
//
// What the buffer holds ends with the process. That loses nothing: the rows are
// claimed, and their leases bring them back.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill"
)

// ErrFull is why a message was not sent.
var ErrFull = errors.New("the local queue is full")

// Config of a Backend. Its zero value works.
type Config struct {
	// Capacity is how many messages wait at most. Defaults to 1000.
	Capacity int
	// Logger gets a debug line for each message whose handler failed. Defaults
	// to slog.Default().
	Logger *slog.Logger
}

// Backend is a queue in memory, first in, first out. It may be used by any
// number of goroutines. There is nothing to close: a Backend that nobody
// consumes keeps its messages until it is consumed, or forgotten.
type Backend struct {
	config  Config
	arrived chan struct{} // holds one signal while there may be messages
	freed   chan struct{}

	running   atomic.Int64 // handler calls
	consumers atomic.Int64 // handler calls that may run at once

	mu    sync.Mutex
	ring  []waybill.Message
	first int // index of the oldest message
	count int
}

var (
	_ waybill.TaskBackend   = (*Backend)(nil)
	_ waybill.Consumer      = (*Backend)(nil)
	_ waybill.Bounded       = (*Backend)(nil)
	_ waybill.BacklogReader = (*Backend)(nil)
)

// New returns an empty queue.
func New(config Config) (*Backend, error) {
	if config.Capacity < 0 {
		return nil, fmt.Errorf("local backend: capacity %d is negative", config.Capacity)
	}
	if config.Capacity == 0 {
		config.Capacity = 1000
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Backend{
		config:  config,
		arrived: make(chan struct{}, 1),
		freed:   make(chan struct{}, 1),
		ring:    make([]waybill.Message, config.Capacity),
	}, nil
}

// Enqueue takes the messages that fit, in order, and never waits: the rest was
// not sent, for want of room.
func (b *Backend) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	if err := ctx.Err(); err != nil {
		return waybill.AllResults(len(messages), waybill.EnqueueNotSent, err), err
	}
	results := waybill.AllResults(len(messages), waybill.EnqueueAccepted, nil)
	accepted := b.push(messages)
	if accepted > 0 {
		signal(b.arrived)
	}
	for i := accepted; i < len(messages); i++ {
		results[i] = waybill.Result{Status: waybill.EnqueueNotSent, Err: ErrFull}
	}
	// A full queue is a healthy one: Room says so beforehand, Freed afterwards.
	return results, nil
}

// push adds what fits and returns how many that were.
func (b *Backend) push(messages []waybill.Message) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(messages), len(b.ring)-b.count)
	for _, message := range messages[:n] {
		b.ring[(b.first+b.count)%len(b.ring)] = message
		b.count++
	}
	return n
}

// pop removes the oldest message.
func (b *Backend) pop() (message waybill.Message, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == 0 {
		return waybill.Message{}, false
	}
	message = b.ring[b.first]
	b.first = (b.first + 1) % len(b.ring)
	b.count--
	if b.count > 0 {
		signal(b.arrived) // for another consumer of the same queue
	}
	if b.count == len(b.ring)/2 {
		signal(b.freed)
	}
	return message, true
}

// Room returns how many messages Enqueue would accept now.
func (b *Backend) Room() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ring) - b.count
}

// Freed returns a channel that is signalled when the queue has drained to half
// its capacity: late enough that a relay claims a batch rather than a row, and
// early enough that the consumer does not run dry.
func (b *Backend) Freed() <-chan struct{} { return b.freed }

// signal leaves a signal for whoever looks next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
