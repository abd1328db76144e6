package waybill

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Join makes one Consumer of several, so that one worker serves several lanes.
// Each queue is given the whole concurrency: a lane that is busy may use all of
// the worker's slots, which are the limit that counts, while the others are idle.
// An error of one ends them all.
func Join(consumers ...Consumer) Consumer {
	if len(consumers) == 1 {
		return consumers[0]
	}
	return joined(consumers)
}

type joined []Consumer

// Consume returns when all of them have.
func (j joined) Consume(ctx context.Context, concurrency int, handle Handler) error {
	if len(j) == 0 {
		return errors.New("join: there is no queue to consume")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(j))
	var all sync.WaitGroup
	for i, consumer := range j {
		all.Go(func() {
			if errs[i] = consumer.Consume(ctx, concurrency, handle); errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Check asks each of them that is a Checker.
func (j joined) Check(ctx context.Context) error {
	for i, consumer := range j {
		checker, ok := consumer.(Checker)
		if !ok {
			continue
		}
		if err := checker.Check(ctx); err != nil {
			return fmt.Errorf("queue %d of %d: %w", i+1, len(j), err)
		}
	}
	return nil
}
