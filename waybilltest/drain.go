package waybilltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/worker"
)

// patience bounds a Drain: receivers may fire what they receive, for ever.
const patience = time.Minute

// Drained is what came of a Drain.
type Drained struct {
	Runs      int // receivers that were run; an attempt each, deferrals aside
	Succeeded int // deliveries that succeeded
	Dead      int // deliveries that are dead: out of attempts, or failed for good
	Orphaned  int // deliveries of receivers that are not declared
	Deferred  int // runs that put their delivery off, and left it
	// Errors are those of the runs that did not succeed, in order, each with its
	// receiver and its delivery.
	Errors []error
}

// Drain delivers all that is due in every lane, and what is fired meanwhile, until
// nothing is left that could be. Deliveries run one after another. Nobody waits for a
// backoff: a receiver that keeps failing is run until its delivery is dead. What is
// scheduled for later waits for Advance, and so does what a receiver deferred, with
// its lane. Rows of receivers that are not declared are orphaned at once.
//
// The test fails if the store does, and if there is still something to run after a
// minute.
func Drain(t testing.TB, store Store, middleware ...worker.Middleware) Drained {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d := drain{ctx: ctx, store: store, queue: &queue{}, log: newLogger(t), middleware: middleware}
	if err := d.all(); err != nil {
		if ctx.Err() != nil && t.Context().Err() == nil {
			t.Fatalf("drain: after %s and %d runs there is more to run; do receivers fire what they receive? (%v)", patience, d.drained.Runs, err)
		}
		t.Fatalf("drain: %v", err)
	}
	return d.drained
}

// DrainTx is Drain inside a transaction of the test's own, a pgx.Tx or a *sql.Tx: it
// delivers what was fired there and not committed, acknowledges there, and goes with
// it when the test rolls it back. The transaction is not to be used meanwhile. Plain
// receivers run as ever; one that reads the database by another connection does not
// see what the transaction has not committed.
func DrainTx[S Store](t testing.TB, store Binder[S], tx any, middleware ...worker.Middleware) Drained {
	t.Helper()
	return Drain(t, within(t, store, tx), middleware...)
}

// drain is one Drain.
type drain struct {
	ctx        context.Context
	store      Store
	queue      *queue
	log        *slog.Logger
	middleware []worker.Middleware

	mu      sync.Mutex // the worker observes in goroutines of its own
	drained Drained
	failed  []int64 // deliveries that wait out a backoff
}

// all goes round until a round finds nothing.
func (d *drain) all() error {
	if _, err := d.store.Hasten(d.ctx, nil); err != nil { // failed before, somewhere else
		return err
	}
	relays, err := d.relays()
	if err != nil {
		return err
	}
	for {
		found := false
		for _, r := range relays {
			if _, err := r.Once(d.ctx, 0); err != nil {
				return err
			}
			messages := d.queue.drain()
			if err := d.deliver(messages); err != nil {
				return err
			}
			found = found || len(messages) > 0
		}
		hastened, err := d.hasten()
		if err != nil {
			return err
		}
		if !found && !hastened {
			return context.Cause(d.ctx)
		}
	}
}

// relays makes one for each lane.
func (d *drain) relays() ([]*relay.Relay, error) {
	var relays []*relay.Relay
	for _, lane := range d.store.Registry().Lanes() {
		r, err := relay.New(relay.Config{
			Store: d.store, Backend: d.queue, Local: d.queue, Lane: lane,
			OrphanAfter: -1, Logger: d.log, Observer: d.observe,
		})
		if err != nil {
			return nil, err
		}
		relays = append(relays, r)
	}
	return relays, nil
}

// deliver has workers run what the messages are of, one after another, and write all
// outcomes. After an outcome that is an error the next one waits until that is
// written: it may have paused the lane.
func (d *drain) deliver(messages []waybill.Message) error {
	for len(messages) > 0 {
		w, err := worker.New(worker.Config{
			Store: d.store, Slots: 1, Logger: d.log, Observer: d.observe, Middleware: d.middleware,
		})
		if err != nil {
			return err
		}
		delivered, err := d.deliverTo(w, messages)
		if err != nil {
			return err
		}
		messages = messages[delivered:]
	}
	return nil
}

// deliverTo runs a worker for as long as outcomes are successes, and returns how many
// messages it had then.
func (d *drain) deliverTo(w *worker.Worker, messages []waybill.Message) (delivered int, err error) {
	ctx, stop := context.WithCancel(d.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	for _, message := range messages {
		before := d.errors()
		if err := w.Deliver(d.ctx, message); err != nil {
			return delivered, err
		}
		if delivered++; d.errors() > before {
			break
		}
	}
	return delivered, nil
}

func (d *drain) errors() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.drained.Errors)
}

// hasten has what failed since the last call be due, and reports whether any is.
func (d *drain) hasten() (bool, error) {
	d.mu.Lock()
	failed := d.failed
	d.failed = nil
	d.mu.Unlock()
	if len(failed) == 0 {
		return false, nil
	}
	n, err := d.store.Hasten(d.ctx, failed)
	return n > 0, err
}

func (d *drain) observe(seen waybill.Observation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch seen.Kind {
	case waybill.ObservedRun:
		d.drained.Runs++
		if seen.Err != nil {
			d.drained.Errors = append(d.drained.Errors, fmt.Errorf("receiver %q, delivery %d: %w", seen.Receiver, seen.DeliveryID, seen.Err))
		}
	case waybill.ObservedAck:
		switch {
		case seen.Deferred:
			d.drained.Deferred++
		case seen.Status == waybill.Succeeded:
			d.drained.Succeeded++
		case seen.Status == waybill.Failed:
			d.failed = append(d.failed, seen.DeliveryID)
		case seen.Status == waybill.Dead:
			d.drained.Dead++
		case seen.Status == waybill.Orphaned:
			d.drained.Orphaned++
		}
	}
}
