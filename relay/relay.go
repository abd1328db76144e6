// Package relay performs the first half of a delivery: claim → enqueue.
//
// A relay serves one lane. It claims the lane's due rows, oldest first, and rows
// whose lease has lapsed; it hands each to the lane's task queue as a message
// that names the claim; and it gives back what the queue did not take. It claims no
// more than its window lets wait in the queue, so that the backlog waits in the
// database, and no lapsed row again whose message the queue may still have. It holds
// no state that matters: kill it anywhere, and what it had claimed is claimed
// again when the lease lapses. With a queue in the store's own database not even
// that is needed: then claim and hand-off are one transaction.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
)

// Defaults.
const (
	DefaultBatchSize   = 100
	DefaultPoll        = time.Second
	DefaultOrphanAfter = time.Hour
	DefaultParkAfter   = 10
)

const (
	enqueueTimeout = 10 * time.Second
	outageCap      = 15 * time.Second // longest wait between tries of a database or queue that is down
)

// Config configures a Relay. Only Store is required. Give a backend for each site that
// receivers of the lane run on: without it their rows are refused one by one, and stay
// owed.
type Config struct {
	Store waybill.Store
	// Backend is the lane's task queue, for receivers with site=task. Without
	// one, their rows are refused one by one and stay owed. With a
	// waybill.TxBackend in the database of a store that is a waybill.TxClaimer,
	// a claim and its messages are one transaction.
	Backend waybill.TaskBackend
	// Local carries rows of receivers with site=relay to a worker in this
	// process. Without one, their rows are refused likewise.
	Local waybill.TaskBackend
	// Lane is the lane to serve. A lane that nobody declared is refused.
	// Defaults to "default": every receiver that is in no other lane, and every
	// row whose receiver is not declared at all.
	Lane string
	// BatchSize is how many rows one claim takes. Defaults to 100.
	BatchSize int
	// Poll is the longest wait for due or lapsed rows. Defaults to 1s.
	Poll time.Duration
	// WakeInterval is for how long the relay looks for more, every
	// waybill.WakeLook, after it was woken or has found rows: as long as the
	// processes that fire leave wake-ups out. Negative is never, for processes that
	// send every one. Defaults to the store's own, if it is waybill.Coalescing, else to
	// waybill.DefaultWakeInterval.
	WakeInterval time.Duration
	// StandardLease bounds what a claim stamps on its rows; see
	// waybill.StampedLease. Defaults to waybill.DefaultLease.
	StandardLease time.Duration
	// OrphanAfter is how long a receiver has to stay unknown before the default
	// lane's relay settles its rows as orphaned. Negative is at once.
	// Defaults to 1h: a rolling deploy must not settle live work.
	OrphanAfter time.Duration
	// ParkAfter is how many runs of a row may end without an outcome before it
	// is dead: the sign of a receiver that kills its process. Rows that merely
	// waited in a queue are not charged. Negative is never. Defaults to 10.
	ParkAfter int
	// WorkerID replaces host:pid in the relay's owner id. A random part always
	// follows. Defaults to host:pid.
	WorkerID string
	// Passes ends Run after that many passes. Defaults to 0: none.
	Passes int
	// WindowOff lets the relay claim all that is due, however long the queue gets, and
	// claim every row again whose lease is over. Leases then have to be as long as the
	// backlog takes; see docs/lease-sizing.md.
	WindowOff bool
	// WindowHorizon is how long a row waits in the queue at most, as far as the relay
	// can tell: it lets as many rows wait as workers start meanwhile. So long do workers
	// go on without any relay. Defaults to 10s, or a quarter of the lane's shortest
	// hand-off lease if that is less; more than that is refused.
	WindowHorizon time.Duration
	// WindowMargin is by how much a lapsed row must have been overtaken in the queue
	// before it is claimed again: longer than it takes to send one batch. Defaults to
	// 5s, or a quarter of that lease if it is less.
	WindowMargin time.Duration
	// PollOnly does without the store's wake-ups: rows are found by the poll.
	PollOnly bool
	Logger   *slog.Logger // Defaults to slog.Default().
	Observer waybill.Observer
}

// Relay serves one lane.
type Relay struct {
	config   Config
	store    waybill.Store
	claimer  waybill.TxClaimer // the same, or nil if it cannot share a transaction
	registry *waybill.Registry
	id       string
	log      *slog.Logger
	task     *route
	local    *route
	unknown  unknownReceivers
	lane     standstill
	wake     chan struct{}
	alert    time.Time // until when the relay looks for more
	sweepAt  time.Time // when lapsed rows and unknown receivers are looked for next, a poll away at most
	turn     int       // counts passes

	passedOver bool // the last sweep left lapsed rows alone, for want of room
}

// New validates the configuration.
func New(config Config) (*Relay, error) {
	if config.Store == nil {
		return nil, errors.New("relay: Config.Store is required")
	}
	if config.Lane == "" {
		config.Lane = waybill.DefaultLane
	}
	registry := config.Store.Registry()
	if err := errors.Join(registry.Err(), registry.CheckLane(config.Lane)); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	setDefault(&config.BatchSize, DefaultBatchSize)
	setDefault(&config.Poll, DefaultPoll)
	if store, ok := config.Store.(waybill.Coalescing); ok {
		setDefault(&config.WakeInterval, store.WakeInterval())
	}
	setDefault(&config.WakeInterval, waybill.DefaultWakeInterval)
	setDefault(&config.StandardLease, waybill.DefaultLease)
	setDefault(&config.OrphanAfter, DefaultOrphanAfter)
	setDefault(&config.ParkAfter, DefaultParkAfter)
	switch {
	case config.BatchSize < 0: // a batch of nothing would idle for ever with work owed
		return nil, fmt.Errorf("relay: batch size %d: must be positive", config.BatchSize)
	case config.Poll < 0:
		return nil, fmt.Errorf("relay: poll %s: must be positive", config.Poll)
	case config.StandardLease < 0:
		return nil, fmt.Errorf("relay: standard lease %s: must be positive", config.StandardLease)
	case config.WindowHorizon < 0:
		return nil, fmt.Errorf("relay: window horizon %s: must be positive", config.WindowHorizon)
	case config.WindowMargin < 0:
		return nil, fmt.Errorf("relay: window margin %s: must be positive", config.WindowMargin)
	case config.Passes < 0:
		return nil, fmt.Errorf("relay: %d passes: must be positive", config.Passes)
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	r := &Relay{
		config:   config,
		store:    config.Store,
		registry: registry,
		id:       waybill.NewOwner(config.WorkerID),
		wake:     make(chan struct{}, 1),
		unknown:  unknownReceivers{},
	}
	r.claimer, _ = config.Store.(waybill.TxClaimer)
	r.log = config.Logger.With("relay", r.id, "lane", config.Lane)
	r.task = newRoute(waybill.SiteTask, config.Backend)
	r.local = newRoute(waybill.SiteRelay, config.Local)
	if _, err := r.bound(); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return r, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ID returns the relay's owner id, as rows show it in claimed_by.
func (r *Relay) ID() string { return r.id }

// Run serves the lane until ctx ends, or Config.Passes are spent, and then returns
// nil. It finishes the hand-off in progress and gives back at once what was
// claimed and not sent. An outage of the database or the queue ends nothing: it
// is waited out. A stop takes at most one claim and one hand-off, each with its
// own deadline, or one transaction of both.
//
// A pause of the lane is known within a poll of its begin, and its end is kept to
// exactly; one that somebody ends early is over within a poll. What is handed off in
// between, the workers give back.
//
// It may be called again once it has returned, and so may Once; not both at a time. It
// returns an error, at once, only where the lane cannot be served as it is configured.
func (r *Relay) Run(ctx context.Context) (err error) {
	if r.task.outflow, err = r.bound(); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	listening := r.listen(ctx)
	defer listening.Wait()
	defer stop() // the listener ends with Run, also where passes end it
	defer func() { r.task.outflow = nil }()
	r.log.Info("relay started")
	defer r.log.Info("relay stopped")
	failures := 0
	for n := 1; ctx.Err() == nil; n++ {
		started := time.Now()
		claimed, more, err := r.pass(ctx, r.config.BatchSize)
		if !errors.Is(err, context.Canceled) {
			r.passed(claimed, time.Since(started), err)
		}
		switch {
		case n == r.config.Passes:
			return nil
		case err != nil:
			failures++
			sleep(ctx, outageWait(failures))
		default:
			failures = 0
			if claimed > 0 {
				r.stayAlert()
			}
			if !more && (claimed == 0 || r.looks()) {
				r.idle(ctx, started)
			}
		}
	}
	return nil
}

// passed accounts for a pass of Run.
func (r *Relay) passed(claimed int, elapsed time.Duration, err error) {
	r.config.Observer.Observe(waybill.Observation{
		Kind: waybill.ObservedPass, Lane: r.config.Lane, Count: claimed, Elapsed: elapsed, Err: err,
	})
	if err != nil {
		r.log.Error("pass did not succeed", "error", err)
	}
}

// Once claims what is due now and hands it off, then returns how many messages the
// queues accepted. With a limit it is one claim of at most that many rows, lapsed
// ones first; without one (0), it goes on until nothing is due. A lane that is paused, or is
// paused meanwhile, has nothing due. The error of a database or queue that is down is
// returned, not waited out.
func (r *Relay) Once(ctx context.Context, limit int) (handedOff int, err error) {
	accepted := func() int { return r.task.accepted + r.local.accepted }
	before := accepted()
	r.sweepAt, r.lane.lookAt = time.Time{}, time.Time{} // due is due, however short ago the last call was
	for ctx.Err() == nil {
		size := r.config.BatchSize
		if limit > 0 {
			size = limit
		}
		claimed, _, err := r.pass(ctx, size)
		err = errors.Join(err, r.task.outage(), r.local.outage())
		if err != nil || claimed == 0 || limit > 0 {
			return accepted() - before, err
		}
	}
	return accepted() - before, nil
}

// outageWait is the wait after that many failures in a row: 1, 2, 4, 8, 15 s,
// shortened by up to a quarter so that a fleet does not return in step.
func outageWait(failures int) time.Duration {
	ceiling := waybill.Backoff{Base: time.Second, Cap: outageCap}.Ceiling(failures)
	return ceiling - time.Duration(rand.Float64()*float64(ceiling)/4)
}

// sleep waits, but not longer than ctx.
func sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
