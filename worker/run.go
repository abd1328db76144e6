package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// perform runs one taken delivery and sends its outcome on its way. It returns
// when the receiver has returned and the slot is free; the outcome is written
// behind its back, together with others.
func (w *Worker) perform(taken waybill.Taken) {
	d := taken.Delivery
	receiver, ok := w.registry.Receiver(d.Receiver)
	refused := "receiver is declared no more"
	if ok {
		refused = w.registry.Refuses(receiver, d.Event)
	}
	if refused != "" { // another worker, of another release, may know it
		<-w.slots
		w.giveBackLater(held(d), refused, "receiver", d.Receiver, "event", d.Event.Name, "version", d.Event.Version)
		return
	}
	w.running.Add(1)
	started := time.Now()
	r := run{receiver: receiver, delivery: d}
	w.call(&r, taken.Lease)
	w.running.Add(-1)
	w.observer.Observe(waybill.Observation{
		Kind: waybill.ObservedRun, Receiver: d.Receiver, DeliveryID: d.ID, Elapsed: time.Since(started), Err: r.err,
	})
	// The database's time of the outcome, without asking it.
	r.at = d.Claim.At.Time().Add(time.Since(started))

	w.unacked <- struct{}{} // before the slot is free: this bounds what piles up
	<-w.slots
	w.door.working.Go(func() {
		defer func() { <-w.unacked }()
		w.finish(r)
	})
}

// run is one run of a receiver and what came of it.
type run struct {
	receiver *waybill.Receiver
	delivery *waybill.Delivery
	err      error     // the receiver's outcome
	at       time.Time // of the outcome, on the database's clock
	settled  bool      // the receiver's own transaction recorded the success
	lost     bool      // the receiver's own transaction found the claim lost
	cut      bool      // the worker had no more time for it
	unrun    bool      // its transaction did not begin
}

// call runs the receiver under a context that ends with the lease, with the
// receiver's timeout, or with the worker's patience, whichever is first.
func (w *Worker) call(r *run, lease *waybill.Lease) {
	ctx, release := lease.Context(w.runs)
	defer release()
	if r.receiver.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.receiver.Timeout, waybill.ErrTimeout)
		defer cancel()
	}
	if r.receiver.Heartbeat {
		// The heartbeat outlives neither the run nor its lease.
		beats, stop := context.WithCancel(ctx)
		var beating sync.WaitGroup
		beating.Go(func() { lease.Keep(beats, w.store, func(err error) { w.beat(r.delivery, err) }) })
		defer beating.Wait()
		defer stop()
	}
	if r.receiver.Transactional() {
		w.callTx(ctx, r)
	} else {
		r.err = w.attempt(ctx, r, nil)
	}
	if r.err != nil && ctx.Err() != nil {
		cause := context.Cause(ctx)
		r.cut = errors.Is(cause, waybill.ErrStopping)
		r.err = fmt.Errorf("%w (%w)", r.err, cause)
	}
}

// callTx runs the receiver inside the transaction that records its success.
func (w *Worker) callTx(ctx context.Context, r *run) {
	success := waybill.Ack{Message: held(r.delivery), Outcome: waybill.Judge(r.receiver, r.delivery, nil, time.Time{}, 0)}
	r.unrun = true
	landed, err := w.txStore.RunTx(ctx, success, func(ctx context.Context, tx any) error {
		r.unrun = false
		return w.attempt(ctx, r, tx)
	})
	r.err = err
	r.settled = err == nil && landed
	r.lost = err == nil && !landed
}

// attempt calls the receiver, and what is wrapped around it, on a goroutine of its own:
// one that ends its goroutine ends that one, and neither the slot nor the queue's.
func (w *Worker) attempt(ctx context.Context, r *run, tx any) error {
	receiver := r.receiver
	if w.wrapped != nil {
		ctx = context.WithValue(ctx, innermostKey{}, &innermost{receiver, tx})
		receiver, tx = w.wrapped, nil
	}
	outcome := make(chan error, 1)
	go func() {
		err := waybill.ErrGoexit
		defer func() { outcome <- err }()
		err = receiver.Call(ctx, tx, r.delivery)
	}()
	return <-outcome
}

func (w *Worker) beat(d *waybill.Delivery, err error) {
	w.observer.Observe(waybill.Observation{Kind: waybill.ObservedExtend, Receiver: d.Receiver, DeliveryID: d.ID, Err: err})
	if err != nil {
		w.log.Warn("lease not extended", "delivery_id", d.ID, "receiver", d.Receiver, "error", err)
	}
}

// held is the row under the claim that the run holds.
func held(d *waybill.Delivery) waybill.Message {
	return waybill.Message{DeliveryID: d.ID, Claim: d.Claim}
}

// finish brings the outcome of a run to its row.
func (w *Worker) finish(r run) {
	switch {
	case r.settled:
		w.recorded(r, waybill.Judge(r.receiver, r.delivery, nil, r.at, 0))
	case r.lost:
		w.lost(r)
	case r.cut:
		// Cut off by the stop: no fault of the receiver's, so no attempt.
		if _, err := w.giveBacks.do(waybill.GiveBack{Message: held(r.delivery)}); err != nil {
			w.log.Warn("interrupted row not given back, it waits for its lease", "delivery_id", r.delivery.ID, "error", err)
		}
	case r.unrun: // no fault of the receiver's either
		w.giveBackLater(held(r.delivery), "receiver was not run: its transaction did not begin", "receiver", r.delivery.Receiver, "error", r.err)
	default:
		w.acknowledge(r)
	}
}

func (w *Worker) acknowledge(r run) {
	outcome := waybill.Judge(r.receiver, r.delivery, r.err, r.at, rand.Float64())
	landed, err := w.acks.do(waybill.Ack{Message: held(r.delivery), Outcome: outcome})
	switch {
	case err != nil:
		w.log.Error("outcome not recorded, the row waits for its lease",
			"delivery_id", r.delivery.ID, "receiver", r.delivery.Receiver, "status", string(outcome.Status), "error", err)
	case landed:
		w.recorded(r, outcome)
		w.pauseLane(r, outcome)
	case w.committed(r):
		r.err = nil
		w.recorded(r, waybill.Judge(r.receiver, r.delivery, nil, r.at, 0))
	default:
		w.lost(r)
	}
}

// committed reports whether a transactional receiver's success is on the row
// although its transaction returned an error: the answer of a commit can be lost.
func (w *Worker) committed(r run) bool {
	if !r.receiver.Transactional() {
		return false
	}
	rows, err := w.store.Look(w.writes, []int64{r.delivery.ID})
	return err == nil && len(rows) == 1 && rows[0].Status == waybill.Succeeded && rows[0].Claim == r.delivery.Claim
}
