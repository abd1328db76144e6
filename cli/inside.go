package cli

import (
	"context"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/worker"
)

// inside is what runs in the relay's own process: queues, and the worker that
// consumes them. It knows when all that was handed off has been taken, which is
// when a relay that ends by itself may stop the worker.
type inside struct {
	queues []waybill.Consumer
	worker *worker.Worker

	mu      sync.Mutex
	waiting int           // messages handed off and not yet taken or refused
	empty   chan struct{} // closed when waiting comes to 0
}

// inside adds a queue to those that this process consumes.
func (r *relaying) inside(queue wire.Queue) waybill.TaskBackend {
	if r.local == nil {
		r.local = &inside{empty: make(chan struct{})}
		close(r.local.empty)
	}
	counted := &countedQueue{Queue: queue, in: r.local}
	r.local.queues = append(r.local.queues, counted)
	if bounded, ok := queue.(waybill.Bounded); ok {
		return &boundedQueue{countedQueue: counted, Bounded: bounded}
	}
	return counted
}

// taken waits until nothing waits in the queues, or ctx ends: what was not taken
// then is given back, or waits for its lease.
func (i *inside) taken(ctx context.Context) {
	i.mu.Lock()
	empty := i.empty
	i.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

func (i *inside) add(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == 0 && n > 0 {
		i.empty = make(chan struct{})
	}
	i.waiting += n
	if i.waiting == 0 && n < 0 {
		close(i.empty)
	}
}

// countedQueue counts what goes in and what comes out.
type countedQueue struct {
	wire.Queue
	in *inside
}

// boundedQueue is a countedQueue that can be full.
type boundedQueue struct {
	*countedQueue
	waybill.Bounded
}

func (q *countedQueue) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	q.in.add(len(messages)) // before: a message may come out before Enqueue returns
	results, err := q.Queue.Enqueue(ctx, messages)
	for _, result := range results {
		if result.Status != waybill.EnqueueAccepted {
			q.in.add(-1)
		}
	}
	return results, err
}

func (q *countedQueue) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	return q.Queue.Consume(ctx, concurrency, func(ctx context.Context, message waybill.Message) error {
		defer q.in.add(-1)
		return handle(ctx, message)
	})
}
