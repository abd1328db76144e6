package amqp

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// lookInterval is how often the queue is looked at, and closeInterval how often
	// once something seems to be wrong.
	lookInterval  = 2 * time.Second
	closeInterval = 200 * time.Millisecond
	// stuckAfter is how long messages and a slot may wait for each other.
	stuckAfter = 10 * time.Second
)

var errStuck = errors.New("the broker delivers nothing though messages and slots wait")

// idle is the subscriptions that wait for a message, and since when.
type idle struct {
	mu    sync.Mutex
	since map[*subscription]time.Time
}

func (i *idle) add(s *subscription) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.since == nil {
		i.since = make(map[*subscription]time.Time)
	}
	i.since[s] = time.Now()
}

func (i *idle) remove(s *subscription) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.since, s)
}

// longest returns how long the one that has waited longest has.
func (i *idle) longest() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	var longest time.Duration
	for _, since := range i.since {
		longest = max(longest, time.Since(since))
	}
	return longest
}

// serve watches that the broker delivers, until the session is dead. When a queue
// is deleted and declared again at once, a broker may subscribe us to the new one
// without a word and then lose on the way what that delivers (seen with quorum
// queues on 3.10), or forget us. Nothing but this tells: messages are ready, each
// time we look, and all the while one and the same slot gets none.
func (l *subscriber) serve(ctx context.Context) error {
	timer := time.NewTimer(lookInterval)
	defer timer.Stop()
	var waiting time.Time // since when messages wait
	for {
		select {
		case <-l.dead:
			return l.cause
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		interval := lookInterval
		ready, err := l.ready(ctx)
		switch idle := l.idle.longest(); {
		case err != nil || ready == 0 || idle < closeInterval:
			waiting = time.Time{}
		case waiting.IsZero():
			waiting = time.Now()
			interval = closeInterval
		case min(time.Since(waiting), idle) >= stuckAfter:
			l.fail(errStuck)
		default:
			interval = closeInterval
		}
		timer.Reset(interval)
	}
}
