package relay_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

// line is a queue whose messages come out in the order they went in.
type line struct {
	mu       sync.Mutex
	waiting  []waybill.Message
	sent     int
	deepest  int
	arrived  chan struct{}
	unsorted bool
}

func newLine() *line { return &line{arrived: make(chan struct{}, 1)} }

func (l *line) Enqueue(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	l.mu.Lock()
	l.waiting = append(l.waiting, messages...)
	l.sent += len(messages)
	l.deepest = max(l.deepest, len(l.waiting))
	l.mu.Unlock()
	l.signal()
	return accepted(len(messages)), nil
}

func (l *line) Unordered() bool { return l.unsorted }

func (l *line) signal() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// next returns the oldest message, and waits for it as long as ctx lasts.
func (l *line) next(ctx context.Context) (m waybill.Message, ok bool) {
	for {
		l.mu.Lock()
		if len(l.waiting) > 0 && ctx.Err() == nil {
			m, l.waiting = l.waiting[0], l.waiting[1:]
			more := len(l.waiting) > 0
			l.mu.Unlock()
			if more {
				l.signal()
			}
			return m, true
		}
		l.mu.Unlock()
		select {
		case <-l.arrived:
		case <-ctx.Done():
			return m, false
		}
	}
}

// lose drops what waits, as a broker does that kept nothing, and returns how many.
func (l *line) lose() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	l.waiting = nil
	return n
}

func (l *line) depth() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// counts returns how many messages it was handed, and how many waited at the most.
func (l *line) counts() (sent, deepest int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent, l.deepest
}

// toldLine is a line that says how much is in it.
type toldLine struct{ *line }

func (l toldLine) Backlog(context.Context) (waybill.Backlog, error) {
	return waybill.Backlog{Ready: waybill.Known(int64(l.depth()))}, nil
}

// crew are the workers on a line.
type crew struct {
	mu      sync.Mutex
	stale   int
	settled int
	stop    func()
}

// crew starts so many slots whose runs take that long, until the test ends.
func (b *bench) crew(l *line, slots int, run time.Duration) *crew {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	c := &crew{}
	c.stop = sync.OnceFunc(func() {
		cancel()
		working.Wait()
	})
	b.Cleanup(c.stop)
	for range slots {
		working.Go(func() {
			for {
				m, ok := l.next(ctx)
				if !ok {
					return
				}
				c.work(b, m, run)
			}
		})
	}
	return c
}

func (c *crew) work(b *bench, m waybill.Message, run time.Duration) {
	ctx := context.Background()
	taken, err := waybill.Take(ctx, b.store, "crew", []waybill.Message{m})
	if err != nil {
		b.Errorf("take: %v", err)
		return
	}
	if taken[0].Refused == waybill.RefusedPaused {
		if _, err := b.store.GiveBack(ctx, []waybill.GiveBack{{Message: m}}); err != nil {
			b.Errorf("give back: %v", err)
		}
		return
	}
	if taken[0].Refused != "" {
		c.mu.Lock()
		c.stale++
		c.mu.Unlock()
		return
	}
	time.Sleep(run)
	d := taken[0].Delivery
	_, err = waybill.Record(ctx, b.store, []waybill.Ack{{
		Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim},
		Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
	}})
	if err != nil {
		b.Errorf("ack: %v", err)
		return
	}
	c.mu.Lock()
	c.settled++
	c.mu.Unlock()
}

// counts returns how many rows it settled, and how many messages were stale.
func (c *crew) counts() (settled, stale int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled, c.stale
}

// settles waits until that many rows are settled.
func (b *bench) settles(c *crew, n int, within time.Duration) {
	b.Helper()
	deadline := time.Now().Add(within)
	for {
		settled, stale := c.counts()
		if settled >= n {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d rows settled within %s, %d copies were stale", settled, n, within, stale)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// windowed runs a relay as users have it on the bench's store and that queue.
func (b *bench) windowed(queue waybill.TaskBackend, config relay.Config) (r *relay.Relay, stop func()) {
	b.Helper()
	config.Store, config.Backend = b.fault, queue
	if config.Poll == 0 {
		config.Poll = 50 * time.Millisecond
	}
	r = newWindowed(b.T, config)
	return r, run(b.T, r)
}

// mail is one receiver of a lane with that lease.
func mail(lease time.Duration) map[string]waybill.Options {
	return map[string]waybill.Options{"mail": {Lease: lease}}
}

// noStale fails the test if a message found its row claimed anew.
func (b *bench) noStale(t *testing.T, c *crew) {
	t.Helper()
	if _, stale := c.counts(); stale != 0 {
		t.Errorf("%d stale copies, want none", stale)
	}
}
