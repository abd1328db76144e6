package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/waybill-go/waybill"
)

// Consume calls handle for each message, in the order in which they came, until
// ctx is cancelled. What is in the queue then stays there for the next Consume.
// A message whose handle call returns an error is dropped: its row's lease brings
// it back.
func (b *Backend) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	if concurrency < 1 {
		return fmt.Errorf("consume local queue: concurrency %d is not positive", concurrency)
	}
	b.consumers.Add(int64(concurrency))
	defer b.consumers.Add(-int64(concurrency))
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, concurrency)
	for {
		// The slot comes first, so that a message leaves the queue only when
		// its call can begin.
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		message, ok := b.next(ctx)
		if !ok {
			return nil
		}
		b.running.Add(1)
		running.Go(func() {
			defer func() {
				b.running.Add(-1)
				<-slots
			}()
			if err := handle(ctx, message); err != nil {
				b.config.Logger.DebugContext(ctx, "handling a message failed",
					"delivery_id", message.DeliveryID, "claimed_by", message.Claim.By,
					"claimed_at", message.Claim.At.String(), "error", err)
			}
		})
	}
}

// next waits for a message. After ctx has ended it takes none.
func (b *Backend) next(ctx context.Context) (waybill.Message, bool) {
	for {
		if ctx.Err() != nil {
			signal(b.arrived) // the signal that woke us may have been meant for all
			return waybill.Message{}, false
		}
		if message, ok := b.pop(); ok {
			return message, true
		}
		select {
		case <-ctx.Done():
		case <-b.arrived:
		}
	}
}
