package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// handOff sends claimed rows to the route's queue and gives back what the queue
// did not take. When the relay stops between claim and hand-off, or the lane is
// paused, all of it is given back: another relay may have the rows at once, or the
// first that goes on.
func (r *Relay) handOff(ctx context.Context, route *route, rows []waybill.ClaimedRow, until time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	finishing := context.WithoutCancel(ctx) // what was begun is finished, each step by its deadline
	if ctx.Err() != nil || r.pausedMeanwhile(finishing) {
		return r.giveBack(finishing, giveBackAll(rows))
	}
	rows, err := r.extend(finishing, r.store, rows, until)
	if err != nil {
		return err
	}
	sent := messages(rows)
	enqueueing, cancel := context.WithTimeout(finishing, enqueueTimeout)
	results, err := route.backend.Enqueue(enqueueing, sent)
	cancel()
	if err != nil {
		wait := route.failed(err)
		r.sweepBy(route.retryAt)
		r.config.Observer.Observe(waybill.Observation{Kind: waybill.ObservedEnqueue, Lane: r.config.Lane, Site: route.site, Err: err})
		r.log.Error("queue is not well, claiming stops", "site", string(route.site), "error", err, "again_in", wait.Round(time.Millisecond).String())
	} else if route.failures > 0 {
		route.recovered()
		r.sweepAt = time.Time{} // what was given back meanwhile is the oldest
		r.log.Info("queue is well again", "site", string(route.site))
	}
	return r.giveBack(finishing, r.sortResults(route, sent, results))
}

func messages(rows []waybill.ClaimedRow) []waybill.Message {
	messages := make([]waybill.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

// extend gives rows whose lease, until that moment, is not the hand-off lease that they
// need exactly that, so that a message has its time to reach a worker: also after a
// claim whose answer was long in coming. Rows that are no longer held are dropped:
// whoever claimed them hands them off.
func (r *Relay) extend(ctx context.Context, store waybill.Extender, rows []waybill.ClaimedRow, until time.Time) ([]waybill.ClaimedRow, error) {
	var extensions []waybill.Extension
	left := time.Until(until)
	for _, row := range rows {
		receiver, ok := r.registry.Receiver(row.Receiver)
		if !ok {
			continue
		}
		if need := r.registry.HandOffLease(receiver); waybill.NeedsExtension(left, need) {
			extensions = append(extensions, waybill.Extension{Message: row.Message, Lease: need})
		}
	}
	if len(extensions) == 0 {
		return rows, nil
	}
	ids, err := store.Extend(ctx, extensions)
	if err != nil {
		return nil, fmt.Errorf("extend %d leases before the hand-off: %w", len(extensions), err)
	}
	lost := make(map[int64]bool, len(extensions))
	for _, extension := range extensions {
		lost[extension.DeliveryID] = true
	}
	for _, id := range ids {
		delete(lost, id)
	}
	kept := rows[:0:0]
	for _, row := range rows {
		if lost[row.DeliveryID] {
			r.log.Warn("row was lost before its hand-off: its lease lapsed", "delivery_id", row.DeliveryID, "receiver", row.Receiver)
			continue
		}
		kept = append(kept, row)
	}
	return kept, nil
}

// sortResults accounts for each message and returns the rows to give back. A row
// whose message may be in the queue is left to its lease.
func (r *Relay) sortResults(route *route, messages []waybill.Message, results []waybill.Result) []waybill.GiveBack {
	var back []waybill.GiveBack
	var accepted, unknown int
	longest := r.longest(route)
	lapses := time.Now().Add(longest + longest/10)
	for i, message := range messages {
		var result waybill.Result // a backend that says nothing leaves it unknown
		if i < len(results) {
			result = results[i]
		}
		switch result.Status {
		case waybill.EnqueueAccepted:
			accepted++
			route.sends(message, lapses)
			delete(route.refusals, message.DeliveryID)
		case waybill.EnqueueRefused:
			delay := route.refused(message.DeliveryID)
			back = append(back, waybill.GiveBack{Message: message, Delay: delay})
			r.log.Warn("message was refused, the row stays owed", "delivery_id", message.DeliveryID, "site", string(route.site),
				"error", result.Err, "again_in", delay.String())
		case waybill.EnqueueNotSent:
			back = append(back, waybill.GiveBack{Message: message})
		default:
			unknown++
			route.sends(message, lapses)
		}
	}
	if unknown > 0 {
		r.log.Warn("messages may or may not be in the queue, their rows wait for their leases", "messages", unknown, "site", string(route.site))
	}
	route.accepted += accepted
	if accepted > 0 {
		r.config.Observer.Observe(waybill.Observation{Kind: waybill.ObservedEnqueue, Lane: r.config.Lane, Site: route.site, Count: accepted})
	}
	return back
}

func (r *Relay) giveBack(ctx context.Context, rows []waybill.GiveBack) error {
	if len(rows) == 0 {
		return nil
	}
	ids, err := r.store.GiveBack(ctx, rows)
	if err != nil {
		return fmt.Errorf("give %d rows back: %w", len(rows), err)
	}
	r.observe(waybill.ObservedGiveBack, len(ids))
	return nil
}

func giveBackAll(rows []waybill.ClaimedRow) []waybill.GiveBack {
	back := make([]waybill.GiveBack, len(rows))
	for i, row := range rows {
		back[i] = waybill.GiveBack{Message: row.Message}
	}
	return back
}
