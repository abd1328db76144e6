package worker

import (
	"time"

	"github.com/waybill-go/waybill"
)

// record is the flush of acknowledgements. An outcome that can still be written is
// never dropped: the store is asked again until it answers, or the worker is out
// of time. Meanwhile the bound on unacknowledged rows holds the slots back.
func (w *Worker) record(acks []waybill.Ack) ([]bool, error) {
	defer w.recording.end()
	for try := 0; ; try++ {
		w.recording.begin()
		landed, err := waybill.Record(w.writes, w.store, acks)
		if err == nil {
			return landed, nil
		}
		if !w.pause(w.runs, try) {
			return nil, err
		}
		w.log.Warn("outcomes not recorded yet, trying again", "outcomes", len(acks), "error", err)
	}
}

// recorded accounts for an outcome that landed: every failed attempt is one line.
func (w *Worker) recorded(r run, outcome waybill.Outcome) {
	d := r.delivery
	w.observer.Observe(waybill.Observation{
		Kind: waybill.ObservedAck, Receiver: d.Receiver, DeliveryID: d.ID,
		Status: outcome.Status, Deferred: outcome.Deferred, Elapsed: r.at.Sub(d.DueAt), Err: r.err,
	})
	if outcome.Status == waybill.Succeeded {
		w.log.Debug("delivery succeeded", "delivery_id", d.ID, "receiver", d.Receiver, "attempt", d.Attempt)
		return
	}
	message := "attempt failed"
	if outcome.Deferred && outcome.Status == waybill.Failed {
		message = "delivery deferred"
	}
	w.log.Warn(message, "delivery_id", d.ID, "receiver", d.Receiver, "event", d.Event.Name, "target", d.Target,
		"attempt", d.Attempt, "max_attempts", d.MaxAttempts, "status", string(outcome.Status),
		"again_in", outcome.Wait.Round(time.Millisecond).String(), "error", outcome.Error)
	if outcome.Notice != "" {
		if _, said := w.noticed.LoadOrStore(d.Receiver+"\x00"+outcome.Notice, true); !said {
			w.log.Warn(outcome.Notice, "receiver", d.Receiver)
		}
	}
}

// lost accounts for a run whose claim was gone when it ended: nothing of it was
// recorded, and a transactional receiver's work was rolled back.
func (w *Worker) lost(r run) {
	d := r.delivery
	w.observer.Observe(waybill.Observation{Kind: waybill.ObservedLost, Receiver: d.Receiver, DeliveryID: d.ID})
	w.log.Warn("the run lost its row: its lease lapsed and another claim holds it; declare a longer lease, or heartbeat",
		"delivery_id", d.ID, "receiver", d.Receiver, "lease", d.Lease.String(), "claimed_by", d.Claim.By, "claimed_at", d.Claim.At.String())
}
