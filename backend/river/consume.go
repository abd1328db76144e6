package river

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	queue "github.com/riverqueue/river"

	"github.com/waybill-go/waybill"
)

// Consume runs a River client of its own, on connections of its own, and calls
// handle with ctx for each job, until ctx ends. A job that was fetched and not yet
// handed over then goes back to its place in the queue.
//
// What handle returns is what River's row says: completed, or discarded with the
// error. A database that cannot be reached is waited for. If handle calls still run
// when Config.Drain is over, Consume leaves them behind and returns an error.
//
// On a Backend of NewWithClient, Consume runs no client: it handles the jobs that
// the team's own client fetches.
func (b *Backend) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	if concurrency < 1 || concurrency > queue.QueueNumWorkersMax {
		return fmt.Errorf("consume %s: concurrency %d: want 1 to %d", b.queue, concurrency, queue.QueueNumWorkersMax)
	}
	if ctx.Err() != nil {
		return nil
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	if b.ofTeam {
		return b.consumeOfTeam(ctx, concurrency, handle)
	}
	worker := newWorker(b.config.StuckAfter, 0)
	c := consume(ctx, worker, b.queue, concurrency, handle, b.log)
	defer c.detach()
	s, err := b.start(ctx, c, worker, concurrency)
	if err != nil || s == nil {
		return err
	}
	defer b.end(ctx, s)
	<-ctx.Done()
	c.detach()
	s.stop()
	return b.drain(c)
}

// consumeOfTeam handles what a team's own client fetches.
func (b *Backend) consumeOfTeam(ctx context.Context, concurrency int, handle waybill.Handler) error {
	if b.worker == nil {
		return fmt.Errorf("consume %s: the backend was made without a worker, to send only", b.queue)
	}
	c := consume(ctx, b.worker, b.queue, concurrency, handle, b.log)
	<-ctx.Done()
	c.detach()
	return b.drain(c)
}

func (b *Backend) drain(c *consumer) error {
	if left := c.drain(b.config.Drain); left > 0 {
		return fmt.Errorf("consume %s: %d handler calls still ran %s after the end was asked for", b.queue, left, b.config.Drain)
	}
	return nil
}

// start starts a client, and waits for the database if need be. It returns nil
// when ctx ends first. Its error is one that no waiting can mend.
func (b *Backend) start(ctx context.Context, c *consumer, worker *Worker, concurrency int) (*session, error) {
	told := newTold()
	told.muted.Store(true) // until it has started, what is to be said is said here
	config, err := b.clientConfig(worker, concurrency, quiet(b.log, told))
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", b.queue, err)
	}
	for pause, warned := 100*time.Millisecond, false; ; pause = min(2*pause, 5*time.Second) {
		s, err := b.database.open(config)
		if err != nil {
			return nil, fmt.Errorf("consume %s: %w", b.queue, err)
		}
		if err = s.start(ctx); err == nil {
			told.muted.Store(false)
			return s, nil
		}
		if ctx.Err() != nil {
			c.detach() // it may have fetched something already
			b.end(ctx, s)
			return nil, nil
		}
		s.abandon()
		if !warned {
			b.log.WarnContext(ctx, "river cannot start in "+b.database.where()+"; waiting for it", "error", err)
			warned = true
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(pause):
		}
	}
}

// clientConfig is what the client of one Consume is made of.
func (b *Backend) clientConfig(worker *Worker, concurrency int, log *slog.Logger) (*queue.Config, error) {
	workers := queue.NewWorkers()
	if err := queue.AddWorkerSafely(workers, worker); err != nil {
		return nil, err
	}
	return &queue.Config{
		Workers:           workers,
		Queues:            map[string]queue.QueueConfig{b.queue: {MaxWorkers: concurrency}},
		FetchCooldown:     b.config.FetchCooldown,
		FetchPollInterval: b.config.FetchPollInterval,
		PollOnly:          b.config.PollOnly,
		MaxAttempts:       1,
		// What these two say is when a job is filed away whose process died.
		// Without a timeout River would never do it.
		JobTimeout:                  b.config.StuckAfter,
		RescueStuckJobsAfter:        b.config.StuckAfter,
		CompletedJobRetentionPeriod: b.config.CompletedRetention,
		CancelledJobRetentionPeriod: b.config.CancelledRetention,
		DiscardedJobRetentionPeriod: b.config.DiscardedRetention,
		Logger:                      log,
	}, nil
}

// end ends a client whose jobs have all returned.
func (b *Backend) end(ctx context.Context, s *session) {
	if !s.end(b.config.Timeout) {
		b.log.WarnContext(ctx, "river did not end in time and was left behind; "+
			"jobs that it had not completed are running to it until they are found stuck", "timeout", b.config.Timeout)
	}
}
