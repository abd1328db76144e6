// Package worker performs the second half of a delivery: take → run → ack.
//
// A worker receives messages from a queue, takes their rows, runs the receivers
// in a fixed number of slots and acknowledges on the rows. Takes and
// acknowledgements of all slots are batched into shared statements, which is
// worth several times the throughput of single ones; a lone one waits at most
// two milliseconds.
//
// What the worker knows it knows from the row. A queue that loses, repeats or
// delays messages, or goes away, changes nothing for a run that has begun.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
)

// Defaults and bounds.
const (
	DefaultSlots = 10
	DefaultDrain = 25 * time.Second

	flushRows    = 100                  // rows in one take or ack
	flushWait    = 2 * time.Millisecond // how long a row waits for company
	unknownDelay = 5 * time.Second      // before a row that this worker cannot run is offered again
	returnGrace  = 2 * time.Second      // for a receiver to return once it was cancelled
)

// Config configures a Worker. Store is required.
type Config struct {
	Store waybill.Store
	// Backend brings messages. Defaults to none: the worker runs what Deliver is
	// given, and nothing else.
	Backend waybill.Consumer
	// Slots is how many receivers run at the same time. Where some of them run in
	// transactions, a store with fewer connections than Slots and one more is
	// refused. Defaults to 10.
	Slots int
	// Drain is how long Run waits for running receivers when its context ends,
	// before it cancels them and gives their rows back. Defaults to 25s.
	Drain time.Duration
	// WorkerID replaces host:pid in the worker's owner id. A random part always
	// follows. Defaults to host:pid.
	WorkerID string
	// Middleware wraps every run, the first in the list outermost. Defaults to none.
	Middleware []Middleware
	// Logger is the worker's, and with a delivery's attributes that of its run: see
	// waybill.LoggerFrom. Defaults to slog.Default().
	Logger   *slog.Logger
	Observer waybill.Observer
}

// Worker takes, runs and acknowledges deliveries of any lane whose messages its
// backend brings, or Deliver is given.
type Worker struct {
	store    waybill.Store
	txStore  waybill.TxStore // nil unless the store runs receivers in transactions
	registry *waybill.Registry
	backend  waybill.Consumer  // nil where only Deliver brings messages
	wrapped  *waybill.Receiver // the middlewares around whichever receiver runs; nil if there are none
	id       string
	drain    time.Duration
	log      *slog.Logger
	observer waybill.Observer

	slots   chan struct{} // a token for each receiver that may run
	unacked chan struct{} // a token for each outcome that may wait to be written
	running atomic.Int64  // receivers that have not returned

	takes     *batcher[waybill.Message, waybill.Taken]
	acks      *batcher[waybill.Ack, bool]
	giveBacks *batcher[waybill.GiveBack, struct{}]
	pauses    *batcher[waybill.PauseRequest, struct{}]

	taking, recording, givingBack, pausing step // what the flushers are at

	begun    atomic.Bool             // Run was called
	door     door                    // what every delivery goes through
	stopping context.Context         // ends when Run's context does: take nothing more
	runs     context.Context         // ends when the drain is over: every run's parent
	cutOff   context.CancelCauseFunc // ends runs
	writes   context.Context         // ends when the worker waits no longer for the store
	giveUp   context.CancelFunc      // ends writes
	noticed  sync.Map                // what was said once already
}

// New validates the configuration.
func New(config Config) (*Worker, error) {
	switch {
	case config.Store == nil:
		return nil, errors.New("worker: Config.Store is required")
	case config.Slots < 0:
		return nil, fmt.Errorf("worker: %d slots: must be positive", config.Slots)
	case config.Drain < 0:
		return nil, fmt.Errorf("worker: drain %s: must be positive", config.Drain)
	}
	if config.Slots == 0 {
		config.Slots = DefaultSlots
	}
	if config.Drain == 0 {
		config.Drain = DefaultDrain
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	w := &Worker{
		store:    config.Store,
		registry: config.Store.Registry(),
		backend:  config.Backend,
		id:       waybill.NewOwner(config.WorkerID),
		drain:    config.Drain,
		observer: config.Observer,
		slots:    make(chan struct{}, config.Slots),
		// Outcomes may lag behind the slots, or slots would idle for each
		// commit; but not without bound, or an outage would pile them up.
		unacked: make(chan struct{}, max(4*config.Slots, 200)),
		door:    door{opened: make(chan struct{})},
	}
	w.log = config.Logger.With("worker", w.id)
	w.txStore, _ = config.Store.(waybill.TxStore)
	if err := w.checkReceivers(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	var err error
	if w.wrapped, err = wrap(config.Middleware); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return w, nil
}

// checkReceivers refuses at start what could only fail at each run.
func (w *Worker) checkReceivers() error {
	errs := []error{w.registry.Err()}
	transactional := false
	for _, r := range w.registry.Receivers() {
		if !r.Transactional() {
			continue
		}
		transactional = true
		if w.txStore == nil {
			errs = append(errs, fmt.Errorf("receiver %q is transactional; the store runs no receivers in transactions", r.Key))
		} else if kind := w.txStore.TxKind(); kind != r.TxKind {
			errs = append(errs, fmt.Errorf("receiver %q wants a transaction of type %s; the store gives %s", r.Key, r.TxKind, kind))
		}
	}
	if transactional {
		errs = append(errs, w.checkPool())
	}
	return errors.Join(errs...)
}

// checkPool refuses a store whose connections the transactions of all slots would use
// up: takes, outcomes and heartbeats would then wait for runs that wait for them.
func (w *Worker) checkPool() error {
	pooled, ok := w.store.(waybill.Pooled)
	if !ok {
		return nil
	}
	if have, need := pooled.Connections(), cap(w.slots)+1; have < need {
		return fmt.Errorf("%d slots that run receivers in transactions need %d connections, and the store has %d: give its pool more, or the worker fewer slots",
			cap(w.slots), need, have)
	}
	return nil
}

// ID returns the worker's owner id, as rows show it in claimed_by.
func (w *Worker) ID() string { return w.id }

// Run works until ctx ends and then drains: it takes nothing more, gives rows
// that it had not begun back, lets receivers finish for as long as Config.Drain,
// then cancels them with cause waybill.ErrStopping and gives their rows back
// without an attempt. A receiver that ignores its cancelled context is left behind
// with its row, which waits for its lease; Run's error counts it. Run returns within
// the drain and four seconds, also while the database does not answer; a queue may
// need more to close. A Worker runs once.
//
// Without a Config.Backend it does the same for what Deliver is given.
func (w *Worker) Run(ctx context.Context) error {
	if w.begun.Swap(true) {
		return errors.New("worker: Run was called before, and a worker runs once: make another")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.stopping = ctx
	// Every run's logger, to which LoggerFrom adds the delivery.
	runs := waybill.WithStore(waybill.WithLogger(context.WithoutCancel(ctx), w.log), w.store)
	w.runs, w.cutOff = context.WithCancelCause(runs)
	defer w.cutOff(waybill.ErrStopping)
	w.writes, w.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, w.startDrain)

	flushers := w.startFlushers()
	w.door.advance(doorOpen)
	defer w.door.advance(doorShut) // also where receivers are left behind
	w.log.Info("worker started", "slots", cap(w.slots), "backend", w.backend != nil)
	consumed := make(chan error, 1)
	go func() {
		err := w.consume(ctx)
		stop() // a queue that cannot be consumed ends the worker, drained
		consumed <- err
	}()
	left, err := w.await(consumed, flushers)
	if left > 0 { // and the flushers with them, until they return after all
		return errors.Join(err, fmt.Errorf("worker: %d receivers did not return when they were cancelled; their rows wait for their leases", left))
	}
	w.log.Info("worker stopped")
	return err
}

// consume brings the backend's messages until ctx ends.
func (w *Worker) consume(ctx context.Context) error {
	if w.backend == nil {
		<-ctx.Done()
		return nil
	}
	return w.backend.Consume(ctx, cap(w.slots), w.Deliver)
}
