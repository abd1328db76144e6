package asynq

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/waybill-go/waybill"
)

// Consume pulls messages and hands each to handle, with ctx, until ctx ends. A
// message that was pulled and not yet handed over then goes back to the head of
// the queue.
//
// To Asynq every message is a success, whatever handle returned: it would only
// file a failure away, and the row's lease brings the delivery back. A Redis that
// cannot be reached is waited for. If handle calls still run when Config.Drain is
// over, Consume leaves them behind and returns an error.
func (b *Backend) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	if concurrency < 1 {
		return fmt.Errorf("consume %s: concurrency %d is not positive", b.queue, concurrency)
	}
	if !b.awaitRedis(ctx) {
		return nil
	}
	c := &consumer{
		backend: b, handle: handle,
		slots: make(chan struct{}, concurrency),
	}
	servers, err := c.start(ctx, concurrency+b.config.Prefetch)
	if err != nil {
		return fmt.Errorf("consume %s: %w", b.queue, err)
	}
	b.keepHouse(ctx)
	left := c.drain(servers)
	if left > 0 {
		return fmt.Errorf("consume %s: %d handler calls still ran %s after the end was asked for", b.queue, left, b.config.Drain)
	}
	return nil
}

// awaitRedis waits until Redis answers: a server of Asynq starts without a word
// when it does not. It returns false when ctx ends first.
func (b *Backend) awaitRedis(ctx context.Context) bool {
	for pause, told := 100*time.Millisecond, false; ; pause = min(2*pause, 5*time.Second) {
		err := b.config.Redis.Ping(ctx).Err()
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		if !told {
			b.log.WarnContext(ctx, "redis does not answer; waiting for it", "error", err)
			told = true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// consumer is one call of Consume.
type consumer struct {
	backend *Backend
	handle  waybill.Handler

	// slots bounds the handle calls. Asynq's own bound does not hold: it gives
	// up on a handler, though not ends it, when Redis was away for 30 s.
	slots chan struct{}

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
	calls   int
}

// settleTime is what a handler that has returned needs to be seen by Asynq.
const settleTime = 100 * time.Millisecond

// start runs the servers, which share the capacity.
func (c *consumer) start(ctx context.Context, capacity int) ([]*asynq.Server, error) {
	config := c.backend.config
	client := &consumerClient{UniversalClient: config.Redis, stopping: ctx.Done(), presence: c.backend.presence()}
	logger := newLogAdapter(c.backend.log)
	n := min(config.Servers, capacity)
	servers := make([]*asynq.Server, n)
	process := asynq.HandlerFunc(func(asynqCtx context.Context, task *asynq.Task) error {
		return c.process(ctx, asynqCtx, task)
	})
	for i := range servers {
		share := capacity / n
		if i < capacity%n {
			share++
		}
		servers[i] = asynq.NewServerFromRedisClient(client, asynq.Config{
			Concurrency:       share,
			Queues:            map[string]int{c.backend.queue: 1},
			TaskCheckInterval: config.CheckInterval,
			// By the time of Shutdown every handler has returned. What has not
			// was never handed over, and this is when it goes back to the queue.
			ShutdownTimeout: settleTime,
			// Nothing is ever scheduled or kept: do not look for it often.
			DelayedTaskCheckInterval: time.Minute,
			JanitorInterval:          time.Hour,
			Logger:                   logger,
			LogLevel:                 asynq.WarnLevel,
		})
		if err := servers[i].Start(process); err != nil {
			c.close()
			all(servers[:i], (*asynq.Server).Shutdown)
			return nil, err
		}
	}
	return servers, nil
}

// process handles one task under the context of Consume. Asynq's own ends with
// trouble of the queue: a Redis that was away, an operator's cancel, the shutdown.
// None of it is a reason to stop a run, so the handler does not see it.
func (c *consumer) process(ctx, asynqCtx context.Context, task *asynq.Task) error {
	message, err := decode(task)
	if err != nil {
		id, _ := asynq.GetTaskID(asynqCtx)
		c.backend.log.WarnContext(ctx, "dropped a task that is no message",
			"task_id", id, "task_type", task.Type(), "bytes", len(task.Payload()), "error", err)
		return nil // done: it would be no message the next time either
	}
	if !c.enter(ctx) {
		<-asynqCtx.Done() // Asynq puts the task back at its shutdown, then ends this
		return nil
	}
	defer c.leave()
	if err := c.handle(ctx, message); err != nil {
		c.backend.log.DebugContext(ctx, "handling a message failed",
			"delivery_id", message.DeliveryID, "claimed_by", message.Claim.By,
			"claimed_at", message.Claim.At.String(), "error", err)
	}
	return nil
}

func decode(task *asynq.Task) (message waybill.Message, err error) {
	if task.Type() != waybill.MessageKind {
		return message, fmt.Errorf("want a task of type %s", waybill.MessageKind)
	}
	err = json.Unmarshal(task.Payload(), &message)
	return message, err
}

// enter waits for a slot. It returns false once the consumer is to stop.
func (c *consumer) enter(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case c.slots <- struct{}{}:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || ctx.Err() != nil {
		<-c.slots
		return false
	}
	c.running.Add(1)
	c.calls++
	return true
}

func (c *consumer) leave() {
	c.mu.Lock()
	c.calls--
	c.mu.Unlock()
	c.running.Done()
	<-c.slots
}

// close lets no call begin any more.
func (c *consumer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// drain ends the servers in the order that loses nothing: pull no more, let the
// handler return, put back what it never saw. It returns how many calls still run.
func (c *consumer) drain(servers []*asynq.Server) (left int) {
	c.close()
	all(servers, (*asynq.Server).Stop)
	returned := make(chan struct{})
	go func() {
		c.running.Wait()
		close(returned)
	}()
	timer := time.NewTimer(c.backend.config.Drain)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
	}
	all(servers, (*asynq.Server).Shutdown)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// all ends servers side by side: each may have to wait for a command to Redis.
func all(servers []*asynq.Server, end func(*asynq.Server)) {
	var group sync.WaitGroup
	for _, server := range servers {
		group.Go(func() { end(server) })
	}
	group.Wait()
}
