package relay

import (
	"context"
	"sync"
	"time"
)

// listen turns the store's wake-ups into a signal, until ctx ends. The poll is the
// floor: while nothing can be heard, rows wait a poll longer and no more.
func (r *Relay) listen(ctx context.Context) *sync.WaitGroup {
	var listening sync.WaitGroup
	if r.config.PollOnly {
		return &listening
	}
	listening.Go(func() {
		for failures := 1; ctx.Err() == nil; failures++ {
			started := time.Now()
			err := r.store.Listen(ctx, r.config.Lane, r.signal)
			if ctx.Err() != nil {
				return
			}
			if time.Since(started) > outageCap {
				failures = 1
			}
			wait := outageWait(failures)
			r.log.Warn("not listening for wake-ups, polling meanwhile", "error", err, "again_in", wait.Round(time.Millisecond).String())
			sleep(ctx, wait)
		}
	})
	return &listening
}

// signal wakes the relay; signals that nobody has seen yet are one.
func (r *Relay) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// idle waits for a wake-up, for room in a bounded queue that was full, or for the
// next sweep: the poll, the next try of a queue that is down, or the end of a pause.
func (r *Relay) idle(ctx context.Context) {
	timer := time.NewTimer(time.Until(r.sweepAt))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-r.task.freed():
	case <-r.local.freed():
	case <-timer.C:
	}
}
