package amqp

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A session is given up when messages are ready and one slot waits, and nothing comes,
// for as long as that takes to be no accident; and for no other reason.
func TestWatchForABrokerThatDeliversNothing(t *testing.T) {
	t.Parallel()
	const watched = 5 * time.Minute
	one, other := new(subscription), new(subscription)
	for name, test := range map[string]struct {
		ready func(elapsed time.Duration) (int, error)
		slots func(i *idle) // what they do, in their own time
		stuck bool
	}{
		"messages wait, and a slot": {
			ready: func(time.Duration) (int, error) { return 1, nil },
			slots: func(i *idle) { i.add(one) },
			stuck: true,
		},
		"one slot waits while another is served": {
			ready: func(time.Duration) (int, error) { return 7, nil },
			slots: func(i *idle) {
				i.add(one)
				for range 60 {
					i.add(other)
					time.Sleep(time.Second)
					i.remove(other)
				}
			},
			stuck: true,
		},
		"no message waits": {
			ready: func(time.Duration) (int, error) { return 0, nil },
			slots: func(i *idle) { i.add(one) },
		},
		"no slot waits": {
			ready: func(time.Duration) (int, error) { return 100, nil },
			slots: func(*idle) {},
		},
		"the slots are served": {
			ready: func(time.Duration) (int, error) { return 100, nil },
			slots: func(i *idle) {
				for range int(watched / time.Second) {
					i.add(one)
					time.Sleep(300 * time.Millisecond)
					i.remove(one)
					time.Sleep(700 * time.Millisecond)
				}
			},
		},
		"the queue empties now and then": {
			ready: func(elapsed time.Duration) (int, error) { return int(elapsed/(5*time.Second)) % 2, nil },
			slots: func(i *idle) { i.add(one) },
		},
		"the broker does not say": {
			ready: func(time.Duration) (int, error) { return 0, errors.New("no answer") },
			slots: func(i *idle) { i.add(one) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				l := &subscriber{session: &session{dead: make(chan struct{})}}
				l.ready = func(context.Context) (int, error) { return test.ready(time.Since(begun)) }
				var slots sync.WaitGroup
				slots.Go(func() { test.slots(&l.idle) })
				defer slots.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), watched)
				defer cancel()
				err := l.serve(ctx)
				took := time.Since(begun)
				if errors.Is(err, errStuck) != test.stuck {
					t.Fatalf("after %s: %v, want it given up: %t", took, err, test.stuck)
				}
				if test.stuck && (took < stuckAfter || took > stuckAfter+2*lookInterval) {
					t.Errorf("it was given up after %s", took)
				}
			})
		})
	}
}
