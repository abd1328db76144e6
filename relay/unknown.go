package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// unknownReceivers remembers since when this relay has seen rows of receivers that
// nobody declares. The memory is the process's own, and so starts anew with it:
// rows wait longer after a restart, and are never settled early by one.
type unknownReceivers map[string]*unknownReceiver

type unknownReceiver struct{ since, seen time.Time }

// note records that rows of the receiver were seen and returns for how long so.
// One that was not seen for as long as forgetAfter is forgotten.
func (u unknownReceivers) note(receiver string, now time.Time, forgetAfter time.Duration) (age time.Duration, first bool) {
	for key, known := range u {
		if now.Sub(known.seen) > forgetAfter {
			delete(u, key)
		}
	}
	known, ok := u[receiver]
	if !ok {
		known = &unknownReceiver{since: now}
		u[receiver] = known
	}
	known.seen = now
	return now.Sub(known.since), !ok
}

// ripe notes the receiver and reports whether its rows are to be orphaned now.
func (r *Relay) ripe(receiver string) bool {
	// Rows come into sight at each poll, and those that are given back when their
	// delay is over: a few of either without one, and the receiver has none.
	forgetAfter := 4 * max(r.config.Poll, outageCap)
	age, first := r.unknown.note(receiver, time.Now(), forgetAfter)
	if first {
		r.log.Warn("rows are owed to a receiver that nobody declares", "receiver", receiver, "orphaned_after", max(r.config.OrphanAfter, 0).String())
	}
	return age >= r.config.OrphanAfter
}

// orphanUnknown settles due rows of receivers that stayed unknown for long enough.
func (r *Relay) orphanUnknown(ctx context.Context, limit int) (int, error) {
	owed, err := r.store.OwedReceivers(ctx, waybill.Keys(r.registry.Receivers()))
	if err != nil {
		return 0, fmt.Errorf("look for unknown receivers: %w", err)
	}
	var ripe []string
	for _, receiver := range owed {
		if r.ripe(receiver) {
			ripe = append(ripe, receiver)
		}
	}
	if len(ripe) == 0 || limit <= 0 {
		return 0, nil
	}
	rows, err := r.store.Claim(context.WithoutCancel(ctx), waybill.ClaimRequest{
		By: r.id, Receivers: ripe, Limit: limit, Lease: r.stamp(nil),
	})
	if err != nil {
		return 0, fmt.Errorf("claim rows of unknown receivers: %w", err)
	}
	return len(rows), r.orphan(ctx, rows)
}

// settleUnknown deals with lapsed rows of unknown receivers: orphaned when ripe,
// otherwise held back for a while, so that they are not claimed at every poll.
func (r *Relay) settleUnknown(ctx context.Context, rows []waybill.ClaimedRow) error {
	var orphans []waybill.ClaimedRow
	var back []waybill.GiveBack
	for _, row := range rows {
		if r.ripe(row.Receiver) {
			orphans = append(orphans, row)
		} else {
			back = append(back, waybill.GiveBack{Message: row.Message, Delay: min(outageCap, r.config.OrphanAfter)})
		}
	}
	if err := r.orphan(ctx, orphans); err != nil {
		return err
	}
	return r.giveBack(context.WithoutCancel(ctx), back)
}

func (r *Relay) orphan(ctx context.Context, rows []waybill.ClaimedRow) error {
	return r.settle(ctx, rows, func(row waybill.ClaimedRow) waybill.Outcome { return waybill.OrphanedOutcome(row.Receiver) })
}

func (r *Relay) park(ctx context.Context, rows []waybill.ClaimedRow) error {
	return r.settle(ctx, rows, func(row waybill.ClaimedRow) waybill.Outcome { return waybill.ParkedOutcome(row.LostRuns) })
}

// settle records outcomes that need no run, under the relay's own claims.
func (r *Relay) settle(ctx context.Context, rows []waybill.ClaimedRow, outcome func(waybill.ClaimedRow) waybill.Outcome) error {
	if len(rows) == 0 {
		return nil
	}
	acks := make([]waybill.Ack, len(rows))
	for i, row := range rows {
		acks[i] = waybill.Ack{Message: row.Message, Outcome: outcome(row)}
	}
	landed, err := waybill.Record(context.WithoutCancel(ctx), r.store, acks)
	if err != nil {
		return fmt.Errorf("settle %d rows: %w", len(rows), err)
	}
	for i, row := range rows {
		if landed[i] {
			r.config.Observer.Observe(waybill.Observation{
				Kind: waybill.ObservedAck, Lane: r.config.Lane, Receiver: row.Receiver, DeliveryID: row.DeliveryID, Status: acks[i].Outcome.Status,
			})
			r.log.Warn("delivery settled without a run", "delivery_id", row.DeliveryID, "receiver", row.Receiver,
				"status", string(acks[i].Outcome.Status), "error", acks[i].Outcome.Error)
		}
	}
	return nil
}
