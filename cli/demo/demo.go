// Package demo is the main job in small: a few hundred events go from an outbox
// through a task queue to workers in this process. With nothing installed the outbox
// is a SQLite file and the queue one that needs no server; with a PostgreSQL or a
// queue at hand it works there, in a schema and queues of its own, and removes them.
// Things go wrong on purpose, and the ledger at the end shows what came of it.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/worker"
)

const (
	lease      = time.Minute            // of most receivers: more than their queue ever takes
	shortLease = 2 * time.Second        // of the lane where leases lapse
	poll       = 100 * time.Millisecond // of the relays
	workers    = 2
	slots      = 20              // of each worker
	lateEvery  = 3               // the post holds every third message of that lane past its lease
	patience   = 4 * time.Minute // until the demo gives up: a slow disk has it wait for leases
)

// Config configures a run of the demo.
type Config struct {
	// Store is the postgres:// URL of a database in which the demo makes a schema
	// of its own. Defaults to a SQLite file in a temporary folder.
	Store string
	// Backend is Asynq, River or Local, or the URL of a backend on which the demo
	// makes queues of its own. Defaults to Asynq.
	Backend string
	// Events are fired instead of made-up ones.
	Events []waybill.RawEvent
	// Made is told, once and before they are used, what the demo has made on
	// servers and will remove; not called if that is nothing.
	Made func(what []string)
	// Progress is told how far the deliveries are, a few times a second.
	Progress func(settled, owed int64, elapsed time.Duration)
	Logger   *slog.Logger // Defaults to none: things go wrong on purpose.
}

func (c *Config) setDefaults() {
	c.Store, c.Backend = lowerScheme(c.Store), lowerScheme(cmp.Or(c.Backend, Asynq))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Made == nil {
		c.Made = func([]string) {}
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64, time.Duration) {}
	}
	if len(c.Events) == 0 {
		c.Events = madeUpEvents()
	}
}

// lowerScheme writes a URL's scheme the way that every library reads it.
func lowerScheme(rawURL string) string {
	name, _, ok := strings.Cut(rawURL, ":")
	if !ok {
		return rawURL
	}
	return strings.ToLower(name) + rawURL[len(name):]
}

// Run runs the demo, removes all that it made, and returns its ledger. An error
// means that it could not be run, or left something behind; whether everything came
// out right is Ledger.Balance. It ends early with ctx, and takes no more than half a
// minute to clean up then.
func Run(ctx context.Context, config Config) (_ Ledger, err error) {
	config.setDefaults()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var leave cleanup
	defer func() { err = leave.run(ctx, err) }()
	own, count := newNames(), newCounters()
	outbox, err := openOutbox(ctx, config, own, count, &leave)
	if err != nil {
		return Ledger{}, err
	}
	queues, err := openQueues(ctx, config, own, outbox, &leave)
	if err != nil {
		return Ledger{}, err
	}
	if made := leave.made(); len(made) > 0 {
		config.Made(made)
	}
	return deliver(ctx, config, own, outbox, queues, count)
}

// deliver fires the events, and returns the ledger when nothing is owed any more.
func deliver(ctx context.Context, config Config, own names, outbox *outbox, queues map[string]wire.Queue, count *counters) (Ledger, error) {
	running, stop := context.WithCancel(ctx)
	post := &latePost{Queue: queues[own.slowLane()], stop: running.Done()}
	queues[own.slowLane()] = post
	defer post.late.Wait()
	defer stop()
	started := time.Now()
	var parts errgroup.Group
	if err := startParts(running, &parts, config, own, outbox, queues, count); err != nil {
		return Ledger{}, errors.Join(err, stopped(stop, &parts))
	}
	err := outbox.fire(ctx, numbered(config.Events))
	if err == nil {
		err = awaitSettled(ctx, outbox, config.Progress, started)
	}
	elapsed := time.Since(started)
	if err := errors.Join(err, stopped(stop, &parts)); err != nil {
		return Ledger{}, err
	}
	return count.ledger(context.WithoutCancel(ctx), outbox, len(config.Events), elapsed)
}

// stopped stops the parts and waits for them.
func stopped(stop func(), parts *errgroup.Group) error {
	stop()
	return parts.Wait()
}

// startParts starts a relay for each lane and two workers that serve both.
func startParts(ctx context.Context, parts *errgroup.Group, config Config, own names, outbox *outbox, queues map[string]wire.Queue, count *counters) error {
	var consumers []waybill.Consumer
	for _, lane := range own.lanes() {
		consumers = append(consumers, queues[lane])
		r, err := relay.New(relay.Config{
			Store: outbox.Store, Backend: queues[lane], Lane: lane, Poll: poll, Logger: config.Logger, Observer: count.observe,
		})
		if err != nil {
			return err
		}
		parts.Go(func() error { return r.Run(ctx) })
	}
	for range workers {
		w, err := worker.New(worker.Config{
			Store: outbox.Store, Backend: waybill.Join(consumers...), Slots: slots, Drain: 2 * shortLease, Logger: config.Logger, Observer: count.observe,
		})
		if err != nil {
			return err
		}
		parts.Go(func() error { return w.Run(ctx) })
	}
	return nil
}

// awaitSettled waits until nothing is owed.
func awaitSettled(ctx context.Context, outbox *outbox, progress func(settled, owed int64, elapsed time.Duration), started time.Time) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		sums, err := outbox.tally(ctx)
		if err != nil {
			return err
		}
		progress(sums.settled(), sums.owed(), time.Since(started))
		if sums.owed() == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d deliveries are still owed after %s: %w", sums.owed(), time.Since(started).Round(time.Second), context.Cause(ctx))
		}
	}
}
