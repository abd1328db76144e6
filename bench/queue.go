package main

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
)

// queue is both ends of a queue.
type queue interface {
	waybill.TaskBackend
	waybill.Consumer
}

// queueAlone sends n messages through the queue and does nothing with them: the
// share of Asynq and Redis. It returns messages a second.
func (b *bench) queueAlone(ctx context.Context, queue queue, slots int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var received atomic.Int64
	var elapsed time.Duration
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return enqueueAll(ctx, queue, b.deliveries) })
	group.Go(func() error {
		return queue.Consume(ctx, slots, func(context.Context, waybill.Message) error {
			if received.Add(1) == int64(b.deliveries) {
				elapsed = time.Since(started)
				cancel()
			}
			return nil
		})
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if elapsed == 0 { // interrupted
		return 0, context.Cause(ctx)
	}
	return rate(b.deliveries, elapsed), nil
}

func enqueueAll(ctx context.Context, queue waybill.TaskBackend, n int) error {
	claim := waybill.Claim{By: waybill.NewOwner("bench-relay"), At: waybill.StampOf(time.Now())}
	for from := 0; from < n; from += batch {
		messages := make([]waybill.Message, min(batch, n-from))
		for i := range messages {
			messages[i] = waybill.Message{DeliveryID: int64(from + i + 1), Claim: claim}
		}
		results, err := queue.Enqueue(ctx, messages)
		if err != nil {
			return err
		}
		for _, result := range results {
			if result.Status != waybill.EnqueueAccepted {
				return result.Err
			}
		}
	}
	return nil
}
