package outages

import (
	"sync"
	"testing"
	"time"
)

// A lane moves from one backend to the next while deliveries flow. Once in order,
// as docs/backends.md has it: workers of both, the relay changed over, the old
// workers stopped when nothing is left for them. And once the hard way: the old
// workers are gone first, with messages in their queue, which come to light when
// the rows have long been delivered elsewhere.
func TestMove(t *testing.T) {
	t.Parallel()
	move(t, false, 5)
}

func TestMoveOfADeepQueue(t *testing.T) {
	t.Parallel()
	move(t, true, 50)
}

// move moves a lane, and leaves so many messages behind at least.
func move(t *testing.T, windowOff bool, left int64) {
	t.Helper()
	first := onAsynq(t)
	second := onRiver(t, first.direct)
	third := onRabbitMQ(t, first.direct)
	l := newLine(t, first.direct, 3*time.Second)
	l.windowOff = windowOff
	stopLoad := l.load()
	oldQueue := first.open()
	oldRelay, oldWorker := l.relay(first.store, oldQueue), l.work(first.store, first.open())
	l.awaitTakes(oldWorker, 50)

	// In order.
	worker := l.work(second.store, second.open())
	oldRelay.stop()
	relay := l.relay(second.store, second.open())
	l.awaitTakes(worker, 50)
	l.await("the old queue is empty", func() (bool, string) {
		b, err := oldQueue.Backlog(t.Context())
		ready, known := b.Ready.Value()
		running, _ := b.Running.Value()
		return err == nil && known && ready+running == 0, b.Ready.String()
	})
	oldWorker.stop()
	if n := oldWorker.refusals.Load() + worker.refusals.Load(); n > 0 {
		t.Logf("%d copies were stale in a move that was made in order", n)
	}

	// The hard way.
	worker.stop()
	l.await("messages are left where no worker is", func() (bool, string) {
		n, err := l.waiting()
		return err == nil && n >= left, "too few are"
	})
	relay.stop()
	l.relay(third.store, third.open())
	last := l.work(third.store, third.open())
	l.awaitTakes(last, 50)
	stopLoad()
	l.settled()
	runs := l.runs.Load()
	late := l.work(second.store, second.open())
	l.await("the copies that were left are refused", func() (bool, string) {
		return late.refusals.Load() >= left, "too few were"
	})
	if n := late.takes.Load(); n > 0 || l.runs.Load() != runs {
		t.Errorf("%d old copies were taken after their deliveries had settled", n)
	}
	l.settled()
}

// load fires events all the time, until stopped.
func (l *line) load() (stop func()) {
	quit := make(chan struct{})
	var firing sync.WaitGroup
	firing.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := l.tryFire(3); err != nil {
					l.t.Errorf("fire: %v", err)
					return
				}
			case <-quit:
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(quit)
		firing.Wait()
	})
	l.t.Cleanup(stop)
	return stop
}

func (l *line) awaitTakes(worker *end, n int64) {
	l.t.Helper()
	l.await("the worker is at work", func() (bool, string) { return worker.takes.Load() >= n, "too few takes" })
}
