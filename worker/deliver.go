package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// ErrNotRunning is what Deliver returns while Run does not run: it was not called, or
// has returned. The row was not touched.
var ErrNotRunning = errors.New("the worker does not run: call Worker.Run, and deliver until it returns")

// startGrace is how long a delivery waits for Run to begin: a program may start its
// queue and its worker side by side.
const startGrace = 5 * time.Second

var _ waybill.Handler = (*Worker)(nil).Deliver

// Deliver does with one message what Run does with those of Config.Backend: it waits
// for a slot, takes the row, runs the receiver and sends the outcome on its way. It is
// for a queue of one's own, which calls it for each message that it brings, from as
// many goroutines as it likes; Config.Slots bounds what runs.
//
// It returns when the slot is free again: once the receiver has returned, or the row
// has refused the copy. The outcome is written behind its back, and Run returns after
// that.
//
// Nil says that the message is of no more use, and the queue may forget it. That is
// so whatever the receiver returned, because a failed attempt is on the row, and
// its next one comes with another message; of a copy that is stale or repeated; and of
// a message that was declined. A message is declined, its row given back for another
// worker to have at once, when ctx ends before a slot is free, and when the worker is
// stopping.
//
// An error says that nothing is known of the row, or that it could not be given back.
// The queue may bring the message again, or forget it: the row's lease brings the
// delivery back either way. The error is ErrNotRunning, and the row untouched, when Run
// has returned, and when it has not begun within five seconds or until ctx ends.
//
// The end of ctx ends the wait for a slot and nothing else: from the take on, the
// row says how long a run may go on. A run has the values of Run's context, not of
// ctx. While the store is out of reach Deliver keeps its slot and asks again, until
// the worker is stopping.
func (w *Worker) Deliver(ctx context.Context, message waybill.Message) error {
	if err := w.awaitRun(ctx); err != nil {
		return fmt.Errorf("delivery %d: %w", message.DeliveryID, err)
	}
	inside := w.door.enter()
	if inside == nil {
		return fmt.Errorf("delivery %d: %w", message.DeliveryID, ErrNotRunning)
	}
	defer inside.Done()
	return w.handle(ctx, message)
}

// awaitRun waits until Run has begun, for as long as it may be about to.
func (w *Worker) awaitRun(ctx context.Context) error {
	select {
	case <-w.door.opened:
		return nil
	default:
	}
	timer := time.NewTimer(startGrace)
	defer timer.Stop()
	select {
	case <-w.door.opened:
		return nil
	case <-timer.C:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", ErrNotRunning, context.Cause(ctx))
	}
}

// Free returns how many slots are free: how many deliveries could start now. It is 0
// unless the worker runs and is not stopping. Whoever claims rows to Deliver them
// claims no more than that, less what it has on its way to Deliver; each Deliver that
// returns has freed its slot.
func (w *Worker) Free() int {
	if !w.door.isOpen() || w.stopping.Err() != nil {
		return 0
	}
	return cap(w.slots) - len(w.slots)
}
