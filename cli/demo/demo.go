// Package demo is the main job with nothing installed: a few hundred events go
// from a SQLite file through Asynq, on a Redis that lives in this process, to
// workers in this process. Things go wrong on purpose, and the ledger at the end
// shows what came of it.
package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

const (
	lease      = time.Minute            // of most receivers: more than their queue ever takes
	shortLease = 2 * time.Second        // of the lane where leases lapse
	poll       = 100 * time.Millisecond // of the relays
	slots      = 20                     // of each of the two workers
	lateEvery  = 3                      // the post holds every third message of that lane past its lease
	patience   = 2 * time.Minute        // until the demo gives up

	slowLane = "reports"
)

var lanes = []string{waybill.DefaultLane, slowLane}

// Config configures a run of the demo.
type Config struct {
	// Backend is "asynq" or "local". Defaults to "asynq".
	Backend string
	// Events are fired instead of made-up ones.
	Events []waybill.RawEvent
	// Progress is told how far the deliveries are, a few times a second.
	Progress func(settled, owed int64, elapsed time.Duration)
	Logger   *slog.Logger // Defaults to none: things go wrong on purpose.
}

// Run runs the demo and returns its ledger. An error means that it could not be
// run; whether everything came out right is Ledger.Balance.
func Run(ctx context.Context, config Config) (Ledger, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if config.Progress == nil {
		config.Progress = func(int64, int64, time.Duration) {}
	}
	if len(config.Events) == 0 {
		config.Events = madeUpEvents()
	}
	folder, err := os.MkdirTemp("", "waybill-demo-")
	if err != nil {
		return Ledger{}, fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer os.RemoveAll(folder)

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	count := newCounters()
	store, err := openStore(ctx, filepath.Join(folder, "demo.db"), count, config.Logger)
	if err != nil {
		return Ledger{}, err
	}
	defer store.Close()
	queues, closeQueues, err := openQueues(config)
	if err != nil {
		return Ledger{}, err
	}
	defer closeQueues()

	running, stop := context.WithCancel(ctx)
	post := &latePost{queue: queues[slowLane], stop: running.Done()}
	queues[slowLane] = post
	defer post.late.Wait()
	defer stop()
	started := time.Now()
	var parts errgroup.Group
	if err := startParts(running, &parts, store, queues, count, config.Logger); err != nil {
		return Ledger{}, err
	}
	if err = fireAll(ctx, store, config.Events); err == nil {
		err = awaitSettled(ctx, store, config.Progress, started)
	}
	elapsed := time.Since(started)
	stop()
	if err := errors.Join(err, parts.Wait()); err != nil {
		return Ledger{}, err
	}
	return count.ledger(context.WithoutCancel(ctx), store, len(config.Events), elapsed)
}

func openStore(ctx context.Context, path string, count *counters, log *slog.Logger) (*sqlite.Store, error) {
	registry := waybill.NewRegistry()
	declareReceivers(registry, count)
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: registry, Logger: log})
	if err != nil {
		return nil, err
	}
	if _, err := store.Migrator().Up(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE reservation (delivery_id INTEGER NOT NULL, payload_bytes INTEGER NOT NULL)`)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the demo's own table: %w", err), store.Close())
	}
	return store, nil
}

// queue is both ends of a task queue.
type queue interface {
	waybill.TaskBackend
	waybill.Consumer
}

// openQueues makes a queue for each lane.
func openQueues(config Config) (map[string]queue, func(), error) {
	queues := map[string]queue{}
	switch config.Backend {
	case "local":
		for _, lane := range lanes {
			backend, err := local.New(local.Config{})
			if err != nil {
				return nil, nil, err
			}
			queues[lane] = backend
		}
		return queues, func() {}, nil
	case "asynq", "":
		client, closeRedis, err := openRedis()
		if err != nil {
			return nil, nil, err
		}
		for _, lane := range lanes {
			backend, err := asynq.New(asynq.Config{Redis: client, Lane: lane, CheckInterval: 30 * time.Millisecond, Logger: config.Logger})
			if err != nil {
				closeRedis()
				return nil, nil, err
			}
			queues[lane] = backend
		}
		return queues, closeRedis, nil
	default:
		return nil, nil, fmt.Errorf("unknown demo backend %q: use asynq or local", config.Backend)
	}
}

// openRedis starts a Redis in this process.
func openRedis() (redis.UniversalClient, func(), error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, nil, fmt.Errorf("start a Redis in this process: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 10 * time.Second, ContextTimeoutEnabled: true})
	return client, func() {
		client.Close()
		server.Close()
	}, nil
}

// startParts starts a relay for each lane and two workers that serve both.
func startParts(ctx context.Context, parts *errgroup.Group, store *sqlite.Store, queues map[string]queue, count *counters, log *slog.Logger) error {
	var consumers []waybill.Consumer
	for _, lane := range lanes {
		consumers = append(consumers, queues[lane])
		r, err := relay.New(relay.Config{
			Store: store, Backend: queues[lane], Lane: lane, Poll: poll, Logger: log, Observer: count.observe,
		})
		if err != nil {
			return err
		}
		parts.Go(func() error { return r.Run(ctx) })
	}
	for range 2 {
		w, err := worker.New(worker.Config{
			Store: store, Backend: waybill.Join(consumers...), Slots: slots, Drain: 2 * shortLease, Logger: log, Observer: count.observe,
		})
		if err != nil {
			return err
		}
		parts.Go(func() error { return w.Run(ctx) })
	}
	return nil
}

// fireAll fires the events the way an application does: in its own transactions.
func fireAll(ctx context.Context, store *sqlite.Store, events []waybill.RawEvent) error {
	const perTransaction = 25
	for len(events) > 0 {
		n := min(perTransaction, len(events))
		err := store.InTx(ctx, func(tx *sql.Tx) error {
			fired := make([]any, n)
			for i, event := range events[:n] {
				fired[i] = event
			}
			_, err := store.FireAll(ctx, tx, fired)
			return err
		})
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// awaitSettled waits until nothing is owed.
func awaitSettled(ctx context.Context, store *sqlite.Store, progress func(settled, owed int64, elapsed time.Duration), started time.Time) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		sums, err := tally(ctx, store)
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
