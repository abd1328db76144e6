package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	eagerLease   = 10 * time.Second // of a claim, until the take stamps the receiver's own
	eagerWaiting = 100              // transactions that wait for a claim, at most
)

// EagerConfig configures an Eager. Store is required.
type EagerConfig struct {
	Store waybill.EagerStore
	// Slots is how many eager receivers run at the same time. What is fired while none
	// is free is left to the relays. Where some of them run in transactions the store
	// needs a connection for each and one more, beside those of a Worker in the same
	// process. Defaults to 10.
	Slots int
	// Drain, WorkerID, Logger, Observer and Middleware are as in Config.
	Drain      time.Duration
	WorkerID   string
	Logger     *slog.Logger
	Observer   waybill.Observer
	Middleware []Middleware
}

// Eager runs deliveries of receivers that declare Options.Eager in the process that
// fired them, as soon as they are committed and without a queue. It claims exactly the
// rows that were just written, no more than it has slots free for, and runs them as a
// Worker does. Everything else is left to the relays: what finds no free slot, what is
// fired while Run does not run, what was committed by a process that died. So eager is
// a matter of how soon, and of nothing else. A run that failed waits out its backoff,
// and a relay hands it off then; in a lane that is paused nothing is begun.
//
// A delivery that an Eager has claimed and not yet taken when its process is killed
// waits for ten seconds; one that runs, for its receiver's lease.
type Eager struct {
	store    waybill.EagerStore
	registry *waybill.Registry
	worker   *Worker
	log      *slog.Logger
	fired    chan waybill.EagerFired
	busy     atomic.Int64 // slots that are taken, or about to be
	onTheWay sync.WaitGroup
	begun    atomic.Bool // Run was called
	left     atomic.Bool // nobody claims any more
}

// NewEager validates the configuration.
func NewEager(config EagerConfig) (*Eager, error) {
	if config.Store == nil {
		return nil, errors.New("eager: EagerConfig.Store is required")
	}
	w, err := New(Config{
		Store: config.Store, Slots: config.Slots, Drain: config.Drain, WorkerID: config.WorkerID,
		Logger: config.Logger, Observer: config.Observer, Middleware: config.Middleware,
	})
	if err != nil {
		return nil, fmt.Errorf("eager: %w", err)
	}
	return &Eager{
		store: config.Store, registry: config.Store.Registry(), worker: w, log: w.log,
		fired: make(chan waybill.EagerFired, eagerWaiting),
	}, nil
}

// ID returns the owner id, as rows show it in claimed_by.
func (e *Eager) ID() string { return e.worker.ID() }

// Run works until ctx ends, and then drains as Worker.Run does. Transactions of the
// store's own (InTx) tell it by themselves what they have committed. What is committed
// before Run has begun is left to the relays; Free is above zero from when it is not. A
// second Run is an error, and so is that of a second Eager on the same store.
func (e *Eager) Run(ctx context.Context) error {
	if e.begun.Swap(true) {
		return errors.New("eager: Run was called before, and it runs once: make another")
	}
	stop, err := e.store.OnCommit(func(_ context.Context, fired waybill.EagerFired) bool { return e.notice(fired) })
	if err != nil {
		return fmt.Errorf("eager: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.worker.Run(ctx) }()
	e.claims(ctx)
	stop()
	e.left.Store(true) // before: who comes too late for this leave sees it
	e.leave()
	e.onTheWay.Wait() // each was taken, or declined and given back
	return <-ended
}

// Fired tells of events that were fired in a transaction of the caller's own, after
// its commit: what Run does not know of by itself. It takes the place of the store's
// Wake, of all lanes, and is no more than that while Run does not run.
func (e *Eager) Fired(ctx context.Context, events ...int64) {
	if len(events) == 0 {
		return
	}
	// Whose they are besides is not known: the relays are to look as well.
	if !e.notice(waybill.EagerFired{Events: events}) {
		e.log.DebugContext(ctx, "fired events are left to the relays", "events", len(events))
	}
	e.store.Wake(ctx)
}

// Free returns how many eager deliveries could start now. It is 0 until Run has begun,
// and from when it is stopping on.
func (e *Eager) Free() int { return e.free() }

// notice reports whether what was fired will be seen to.
func (e *Eager) notice(fired waybill.EagerFired) bool {
	if e.free() == 0 {
		return false
	}
	select {
	case e.fired <- fired:
		if e.left.Load() { // meanwhile
			e.leave()
		}
		return true
	default:
		return false
	}
}

// claims claims what is fired until ctx ends.
func (e *Eager) claims(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case fired := <-e.fired:
			fired = e.gather(fired)
			if !e.claim(ctx, fired) {
				e.wake(ctx, fired)
			}
		}
	}
}

// gather adds what waits to be claimed, into one statement for all of it.
func (e *Eager) gather(fired waybill.EagerFired) waybill.EagerFired {
	for {
		select {
		case more := <-e.fired:
			fired.Events = append(fired.Events, more.Events...)
			fired.Lanes = append(fired.Lanes, more.Lanes...)
		default:
			return fired
		}
	}
}

// claim claims what can start now and has it run. It reports whether nothing may be
// left for the relays.
func (e *Eager) claim(ctx context.Context, fired waybill.EagerFired) bool {
	free := e.free()
	if free == 0 {
		return false
	}
	receivers := slices.DeleteFunc(e.registry.Leases(), func(lease waybill.ReceiverLease) bool {
		receiver, ok := e.registry.Receiver(lease.Receiver)
		return !ok || !receiver.Eager
	})
	rows, err := e.store.ClaimFired(ctx, waybill.FiredRequest{
		By: e.worker.ID(), Events: fired.Events, Receivers: receivers, Limit: free, Lease: eagerLease,
	})
	if err != nil {
		e.log.WarnContext(ctx, "eager deliveries are left to the relays", "events", len(fired.Events), "error", err)
		return false
	}
	e.busy.Add(int64(len(rows)))
	for _, row := range rows {
		e.onTheWay.Go(func() {
			defer e.busy.Add(-1)
			if err := e.worker.Deliver(ctx, row.Message); err != nil {
				e.log.WarnContext(ctx, "eager delivery waits for its lease", "delivery_id", row.DeliveryID, "error", err)
			}
		})
	}
	return len(rows) < free
}

// free is how many deliveries can start now. Nobody else delivers to the worker.
func (e *Eager) free() int {
	if e.worker.Free() == 0 {
		return 0
	}
	return cap(e.worker.slots) - int(e.busy.Load())
}

func (e *Eager) wake(ctx context.Context, fired waybill.EagerFired) {
	if len(fired.Lanes) > 0 {
		e.store.Wake(ctx, fired.Lanes...)
	}
}

// leave leaves what was not claimed to the relays.
func (e *Eager) leave() {
	for {
		select {
		case fired := <-e.fired:
			e.wake(context.Background(), fired)
		default:
			return
		}
	}
}
