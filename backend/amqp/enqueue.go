package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// batchSize is how many messages wait for the broker's word together. A quorum
// queue gains little from more, and the library little enough from that many.
const batchSize = 500

// What a publisher younger than youth is refused is sent so many times in all, with
// such a wait between.
const (
	tries     = 3
	retryWait = 200 * time.Millisecond
	youth     = 5 * time.Second
)

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
		if err := b.enqueueBatch(ctx, messages[start:end], results[start:end]); err != nil {
			return err
		}
	}
	return nil
}

// enqueueBatch sends up to batchSize messages. A quorum queue that was declared a
// moment ago refuses what comes until it has a leader, so what a young publisher
// is refused is sent again.
func (b *Backend) enqueueBatch(ctx context.Context, messages []waybill.Message, results []waybill.Result) error {
	p, err := b.publisher(ctx)
	if err != nil {
		return err
	}
	err = p.publish(ctx, messages, results)
	for try := 1; try < tries && time.Since(p.opened) < youth; try++ {
		again := refusals(results)
		if len(again) == 0 || err != nil && !errors.Is(err, errNacked) {
			return err // which tells more than another try would
		}
		select {
		case <-time.After(retryWait):
		case <-ctx.Done():
			return err
		}
		if p, err = b.publisher(ctx); err != nil {
			return err
		}
		err = p.publishAgain(ctx, again, messages, results)
	}
	return err
}

// refusals returns which messages the queue would not take.
func refusals(results []waybill.Result) []int {
	var refused []int
	for i, result := range results {
		if errors.Is(result.Err, errNacked) {
			refused = append(refused, i)
		}
	}
	return refused
}

// publishAgain publishes some of the messages.
func (p *publisher) publishAgain(ctx context.Context, some []int, messages []waybill.Message, results []waybill.Result) error {
	part := make([]waybill.Message, len(some))
	for i, n := range some {
		part[i] = messages[n]
	}
	answers := waybill.AllResults(len(some), waybill.EnqueueRefused, errNacked)
	err := p.publish(ctx, part, answers)
	for i, n := range some {
		results[n] = answers[i]
	}
	if errors.Is(err, errNacked) && len(some) < len(messages) {
		return nil // others it took
	}
	return err
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
