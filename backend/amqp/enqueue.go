package amqp

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
)

// batchSize is how many messages wait for the broker's word together. A quorum
// queue gains little from more, and the library little enough from that many.
const batchSize = 500

// Enqueue publishes the messages, 500 at a time, and waits for the broker's word on
// each. A message that the broker returned, because the queue is gone, or would not
// take, because the queue is full, is refused; one whose word did not come is
// unknown, and its connection is given up.
//
// It waits for the first connection, and for one that is being made. Otherwise it
// returns at once when the broker cannot be reached (ErrUnavailable) or takes no
// messages (ErrBlocked), and nothing was sent.
func (b *Backend) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	results := waybill.AllResults(len(messages), waybill.EnqueueNotSent, nil)
	if len(messages) == 0 {
		return results, nil
	}
	err := b.enqueue(ctx, messages, results)
	if err == nil {
		return results, nil
	}
	err = fmt.Errorf("enqueue on %s: %w", b.queue, err)
	for i := range results {
		if results[i].Status == waybill.EnqueueNotSent {
			results[i].Err = err
		}
	}
	return results, err
}

func (b *Backend) enqueue(ctx context.Context, messages []waybill.Message, results []waybill.Result) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for start := 0; start < len(messages); start += batchSize {
		end := min(start+batchSize, len(messages))
		p, err := b.publisher(ctx)
		if err != nil {
			return err
		}
		if err := p.publish(ctx, messages[start:end], results[start:end]); err != nil {
			return err
		}
	}
	return nil
}

// publisher returns one that may send.
func (b *Backend) publisher(ctx context.Context) (*publisher, error) {
	for ctx.Err() == nil {
		p, err := b.publishers.current(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := p.alarm.state(); err != nil {
			return nil, err
		}
		if !p.spoilt {
			return p, nil
		}
		p.fail(errors.New("messages of this connection were given up during an alarm"))
	}
	return nil, context.Cause(ctx)
}
