package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// pass claims once and hands off what it got; more is whether a claim got all that it
// asked for, so that there may be others. Lapsed rows keep their place, which
// is before all that is due, so they go first; looking for them costs a scan of
// what is in flight, so it is done once per poll and not once per claim.
func (r *Relay) pass(ctx context.Context, limit int) (claimed int, more bool, err error) {
	if paused, err := r.paused(ctx); err != nil || paused {
		r.sweepAt = r.lane.lookAt // what has lapsed by then goes first
		return 0, false, err
	}
	sweeps := !time.Now().Before(r.sweepAt)
	if err := r.watch(ctx, sweeps); err != nil {
		return 0, false, err
	}
	if n, err := r.probe(ctx); err != nil || n > 0 {
		return n, false, err
	}
	if sweeps || r.passedOver && r.task.limit(limit) > 0 {
		if claimed, more, err = r.sweep(ctx, limit); err != nil || more {
			return claimed, more, err // the next pass sweeps again: nothing due goes before what lapsed
		}
	}
	routes := r.routes()
	if r.turn++; r.turn%2 == 0 { // a backlog for one site must not starve the other
		slices.Reverse(routes)
	}
	for _, route := range routes {
		if ctx.Err() != nil {
			return claimed, false, nil
		}
		n, full, err := r.claimDue(ctx, route, limit-claimed)
		claimed, more = claimed+n, more || full
		if err != nil {
			return claimed, more, err
		}
	}
	return claimed, more, nil
}

// sweep looks for what the due rows of declared receivers do not show: lapsed
// rows, and rows of receivers that nobody declares. Where it got all it asked for
// there may be more.
func (r *Relay) sweep(ctx context.Context, limit int) (claimed int, more bool, err error) {
	now := time.Now()
	claimed, more, err = r.claimLapsed(ctx, limit)
	if err != nil || more {
		return claimed, more, err
	}
	if r.config.Lane == waybill.DefaultLane {
		n, err := r.orphanUnknown(ctx, limit-claimed)
		more = n == limit-claimed
		claimed += n
		if err != nil || more {
			return claimed, more, err
		}
	}
	r.sweepAt = now.Add(r.config.Poll)
	for _, route := range r.routes() {
		if route.retryAt.After(now) {
			r.sweepBy(route.retryAt)
		}
	}
	return claimed, false, nil
}

// sweepBy sees to a sweep at that time or before: what a queue did not take is
// among the lapsed rows when the queue is tried again.
func (r *Relay) sweepBy(at time.Time) {
	if at.Before(r.sweepAt) {
		r.sweepAt = at
	}
}

// claimDue claims due rows of the route's receivers and hands them off; full is
// whether it got as many as there was room for.
func (r *Relay) claimDue(ctx context.Context, route *route, limit int) (claimed int, full bool, err error) {
	limit = route.limit(limit)
	claimed, err = r.claimDueOf(ctx, route, limit)
	if route.outflow != nil && limit > 0 && err == nil {
		route.outflow.window.Claimed(limit, claimed)
	}
	return claimed, limit > 0 && claimed == limit, err
}

func (r *Relay) claimDueOf(ctx context.Context, route *route, limit int) (int, error) {
	receivers := r.served(route)
	if limit <= 0 || len(receivers) == 0 {
		return 0, nil
	}
	request := waybill.ClaimRequest{By: r.id, Receivers: waybill.Keys(receivers), Limit: limit, Lease: r.stamp(receivers)}
	return r.carry(ctx, func(ctx context.Context, claims waybill.Claimer) (load, error) {
		requested := time.Now()
		rows, err := claims.Claim(ctx, request)
		if err != nil {
			return load{}, fmt.Errorf("claim in lane %s: %w", r.config.Lane, err)
		}
		due := newLoad(rows, requested.Add(request.Lease))
		due.bound[route] = rows
		return due, nil
	}, route)
}

// stamp is the lease that a claim for these receivers puts on its rows.
func (r *Relay) stamp(receivers []*waybill.Receiver) time.Duration {
	needs := make([]time.Duration, len(receivers))
	for i, receiver := range receivers {
		needs[i] = r.registry.HandOffLease(receiver)
	}
	return waybill.StampedLease(r.config.StandardLease, needs)
}

func (r *Relay) observe(kind waybill.ObservationKind, count int) {
	if count > 0 {
		r.config.Observer.Observe(waybill.Observation{Kind: kind, Lane: r.config.Lane, Count: count})
	}
}
