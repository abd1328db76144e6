package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// How long a reading rests, as a multiple of what it took.
const (
	restAfterAnswer  = 20
	restAfterFailure = 2 // what failed may be well again soon
)

// reading is something that costs its owner to tell: it is asked by one at a time,
// rests after that, and serves all who want it meanwhile.
type reading[T any] struct {
	collector *Collector
	ask       func(ctx context.Context) (T, error)
	source    *slog.Logger // says who is asked
	failed    func()       // counts an answer that did not come

	mu      sync.Mutex
	last    T
	known   bool          // last was answered, and nothing failed since
	failing bool          // the question before this one was not answered
	askAt   time.Time     // not asked again before
	running chan struct{} // closed when the question at hand is answered; nil without one
}

// begin asks, unless the last answer serves still or somebody asks already.
func (r *reading[T]) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running != nil || time.Now().Before(r.askAt) {
		return
	}
	running := make(chan struct{})
	if r.collector.ask(func(ctx context.Context) { defer close(running); r.run(ctx) }) {
		r.running = running
	}
}

func (r *reading[T]) run(ctx context.Context) {
	started := time.Now()
	answer, err := r.ask(ctx)
	took := time.Since(started)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = nil
	r.note(err)
	rest := restAfterFailure * took
	if err == nil {
		r.last = answer
		rest = restAfterAnswer * took
	}
	r.askAt = time.Now().Add(max(r.collector.config.MaxAge, rest))
}

// note accounts for the end of a question. An outage is a line at its beginning, and
// one at its end.
func (r *reading[T]) note(err error) {
	switch {
	case err != nil:
		r.failed()
		if !r.failing && r.collector.asking.Err() == nil {
			r.source.Warn("not answered, its metrics are absent meanwhile", "error", err)
		}
	case r.failing:
		r.source.Info("answered, its metrics are there again")
	}
	r.known, r.failing = err == nil, err != nil
}

// get waits for the question at hand until ctx ends, and returns what is known then.
func (r *reading[T]) get(ctx context.Context) (T, bool) {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.known
}
