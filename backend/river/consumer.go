package river

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// consumer is one call of Consume: its slots, and the handler calls in them.
type consumer struct {
	ctx    context.Context // of Consume: River's ends with trouble of the queue
	handle waybill.Handler
	log    *slog.Logger

	calls  <-chan *call
	detach func()
	slots  sync.WaitGroup

	mu      sync.Mutex
	running map[*call]struct{}
}

// consume opens slots on a worker's queue, until ctx ends.
func consume(ctx context.Context, worker *Worker, queue string, slots int, handle waybill.Handler, log *slog.Logger) *consumer {
	c := &consumer{
		ctx: ctx, handle: handle, log: log,
		calls:   worker.attach(queue),
		detach:  sync.OnceFunc(func() { worker.detach(queue) }),
		running: make(map[*call]struct{}),
	}
	for range slots {
		c.slots.Go(c.slot)
	}
	return c
}

// slot handles one job after the other.
func (c *consumer) slot() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case call := <-c.calls:
			if c.ctx.Err() != nil {
				call.returned <- errNotTaken
				return
			}
			c.run(call)
		}
	}
}

// run handles one job, and drops it if it is no message.
func (c *consumer) run(call *call) {
	job := call.job
	if job.Args.invalid != nil {
		c.log.WarnContext(c.ctx, "dropped a job that is no message",
			"job_id", job.ID, "bytes", len(job.EncodedArgs), "error", job.Args.invalid)
		call.returned <- nil
		return
	}
	c.mu.Lock()
	c.running[call] = struct{}{}
	c.mu.Unlock()
	err := c.guard(job.Args.message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.running[call]; ok { // else it was given up
		delete(c.running, call)
		call.returned <- err
	}
}

// guard calls the handler. A panic is an error whose text has the stack, for
// River's row.
func (c *consumer) guard(message waybill.Message) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
			c.log.ErrorContext(c.ctx, "handling a message panicked",
				"delivery_id", message.DeliveryID, "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	return c.handle(c.ctx, message)
}

// errGivenUp is what River's row says of a call that outlasted its consumer.
var errGivenUp = errors.New("still running when its consumer had to end")

// drain waits for the calls that run, and gives up those that take too long. It
// returns how many that were.
func (c *consumer) drain(limit time.Duration) int {
	returned := make(chan struct{})
	go func() {
		c.slots.Wait()
		close(returned)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left := len(c.running)
	for call := range c.running {
		delete(c.running, call)
		call.returned <- errGivenUp
	}
	return left
}
