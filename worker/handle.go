package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// handle is slot → take → run. It never asks the queue for another try: once a row
// is taken, or has refused the copy, the copy is of no more use.
func (w *Worker) handle(ctx context.Context, message waybill.Message) error {
	if ctx.Err() != nil { // a free slot would be as good a choice below
		return w.decline(message)
	}
	// The slot comes first, so that a row is taken when its run can start and
	// not when its message was fetched.
	select {
	case w.slots <- struct{}{}:
	case <-w.stopping.Done():
		return w.decline(message)
	case <-ctx.Done():
		return w.decline(message)
	}
	if w.stopping.Err() != nil { // the slot came free as the worker stopped
		<-w.slots
		return w.decline(message)
	}
	busy := time.Now()
	taken, err := w.takes.do(message)
	if err != nil { // the worker stops, and the store is out of reach
		<-w.slots
		return err
	}
	if taken.Refused != "" {
		cost := time.Since(busy)
		<-w.slots
		w.refused(taken, cost)
		return nil
	}
	d := taken.Delivery
	seen := waybill.Observation{Kind: waybill.ObservedTake, Receiver: d.Receiver, DeliveryID: d.ID}
	if !d.HandedOffAt.IsZero() { // an eager one waited in no queue
		seen.Elapsed = d.Claim.At.Time().Sub(d.HandedOffAt)
	}
	w.observer.Observe(seen)
	w.perform(taken)
	return nil
}

// decline gives a row that this worker will not begin back, so that another can
// have it at once and not after its lease.
func (w *Worker) decline(message waybill.Message) error {
	if _, err := w.giveBacks.do(waybill.GiveBack{Message: message}); err != nil {
		return fmt.Errorf("delivery %d was declined and not given back: %w", message.DeliveryID, err)
	}
	return nil
}

// refused accounts for a copy that its row refused, and for how long it kept a slot
// from other work.
func (w *Worker) refused(taken waybill.Taken, cost time.Duration) {
	w.observer.Observe(waybill.Observation{
		Kind: waybill.ObservedRefusal, Receiver: taken.Receiver, DeliveryID: taken.Message.DeliveryID,
		Refusal: taken.Refused, Elapsed: cost,
	})
	switch taken.Refused {
	case waybill.RefusedReceiver:
		// During a rolling deploy another worker may know the receiver: hand
		// the row back as it was, and settle nothing.
		w.giveBackLater(taken.Message, "receiver is not declared in this worker")
		return
	case waybill.RefusedPaused:
		w.giveBackPaused(taken.Message)
		return
	}
	w.log.Info("message carried a claim the row no longer holds",
		"delivery_id", taken.Message.DeliveryID, "claimed_by", taken.Message.Claim.By,
		"claimed_at", taken.Message.Claim.At.String(), "refused", string(taken.Refused))
}

// giveBackLater releases a row that this worker cannot run, with a delay that
// keeps it from going in circles.
func (w *Worker) giveBackLater(message waybill.Message, why string, attrs ...any) {
	attrs = append(attrs, "delivery_id", message.DeliveryID, "again_in", unknownDelay.String())
	if _, err := w.giveBacks.do(waybill.GiveBack{Message: message, Delay: unknownDelay}); err != nil {
		w.log.Warn("row not given back, it waits for its lease", append(attrs, "error", err)...)
		return
	}
	w.log.Warn(why, attrs...)
}

// take is the flush of takes. While the store is out of reach it keeps trying,
// and with it every slot that waits: a queue that is not consumed loses nothing,
// whereas one that is drained into failed takes has to be filled again.
func (w *Worker) take(messages []waybill.Message) ([]waybill.Taken, error) {
	defer w.taking.end()
	for try := 0; ; try++ {
		w.taking.begin()
		answers, err := waybill.Take(w.runs, w.store, w.id, messages)
		if err == nil {
			return answers, nil
		}
		if !w.pause(w.stopping, try) {
			return nil, err
		}
		w.log.Warn("take did not succeed, trying again", "messages", len(messages), "error", err)
	}
}

// giveBack is the flush of give-backs. It is tried once: whatever it cannot
// release waits for its lease.
func (w *Worker) giveBack(rows []waybill.GiveBack) ([]struct{}, error) {
	defer w.givingBack.end()
	for rest := rows; len(rest) > 0; {
		w.givingBack.begin()
		var batch []waybill.GiveBack
		batch, rest = distinct(rest)
		ids, err := w.store.GiveBack(w.writes, batch)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			w.observer.Observe(waybill.Observation{Kind: waybill.ObservedGiveBack, Count: len(ids)})
		}
	}
	return make([]struct{}, len(rows)), nil
}

// distinct splits off the first of several rows of one id: a statement names a row
// once, and of two copies of a message either may be the one that holds it.
func distinct(rows []waybill.GiveBack) (batch, rest []waybill.GiveBack) {
	seen := make(map[int64]bool, len(rows))
	for _, row := range rows {
		if seen[row.DeliveryID] {
			rest = append(rest, row)
			continue
		}
		seen[row.DeliveryID] = true
		batch = append(batch, row)
	}
	return batch, rest
}

// pause waits before another try: 50 ms doubling to 5 s. It reports false when
// ctx ends.
func (w *Worker) pause(ctx context.Context, try int) bool {
	wait := waybill.Backoff{Base: 50 * time.Millisecond, Cap: 5 * time.Second}.Ceiling(try + 1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
