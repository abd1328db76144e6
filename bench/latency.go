package main

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// firesPerSecond is a load that leaves every stage idle most of the time.
const firesPerSecond = 50

// latencies are the times from the start of a firing transaction to the run.
type latencies struct {
	mu      sync.Mutex
	fired   []time.Time
	elapsed []time.Duration
	all     chan struct{}
	want    int
}

func (l *latencies) run(_ context.Context, d *waybill.Delivery) error {
	now := time.Now()
	var payload struct{ N int }
	if err := json.Unmarshal(d.Event.Payload, &payload); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.elapsed = append(l.elapsed, now.Sub(l.fired[payload.N]))
	if len(l.elapsed) == l.want {
		close(l.all)
	}
	return nil
}

func (l *latencies) firing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fired = append(l.fired, time.Now())
	return len(l.fired) - 1
}

// measureLatency fires at a steady rate and returns the latencies, sorted.
func (b *bench) measureLatency(ctx context.Context, db database, queue queue) ([]time.Duration, error) {
	if err := db.clear(ctx); err != nil {
		return nil, err
	}
	l := &latencies{all: make(chan struct{}), want: max(1, int(b.latency.Seconds()*firesPerSecond))}
	store, err := db.open(l.run)
	if err != nil {
		return nil, err
	}
	br, err := b.start(ctx, store, queue, 64, func() {})
	if err != nil {
		return nil, err
	}
	fireSteadily := func() error {
		ticker := time.NewTicker(time.Second / firesPerSecond)
		defer ticker.Stop()
		for range l.want {
			n := l.firing()
			if err := store.fire(ctx, event(n)); err != nil {
				return err
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		select {
		case <-l.all:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	err = fireSteadily()
	if ended := br.end(); err == nil {
		err = ended
	}
	slices.Sort(l.elapsed)
	return l.elapsed, err
}
