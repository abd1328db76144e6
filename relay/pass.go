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
	if !time.Now().Before(r.sweepAt) {
		if claimed, more, err = r.sweep(ctx, limit); err != nil || more {
			return claimed, more, err // the next pass sweeps again: nothing due goes before what lapsed
		}
	}
	receivers := r.registry.LaneReceivers(r.config.Lane)
	routes := r.routes()
	if r.turn++; r.turn%2 == 0 { // a backlog for one site must not starve the other
		slices.Reverse(routes)
	}
	for _, route := range routes {
		if ctx.Err() != nil {
			return claimed, false, nil
		}
		n, full, err := r.claimDue(ctx, route, route.receivers(receivers), limit-claimed)
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
func (r *Relay) claimDue(ctx context.Context, route *route, receivers []*waybill.Receiver, limit int) (claimed int, full bool, err error) {
	limit = route.limit(limit)
	if limit <= 0 || len(receivers) == 0 {
		return 0, false, nil
	}
	request := waybill.ClaimRequest{By: r.id, Receivers: waybill.Keys(receivers), Limit: limit, Lease: r.stamp(receivers)}
	claimed, err = r.carry(ctx, func(ctx context.Context, claims waybill.Claimer) (load, error) {
		requested := time.Now()
		rows, err := claims.Claim(ctx, request)
		if err != nil {
			return load{}, fmt.Errorf("claim in lane %s: %w", r.config.Lane, err)
		}
		due := newLoad(rows, requested.Add(request.Lease))
		due.bound[route] = rows
		return due, nil
	}, route)
	return claimed, claimed == limit, err
}

// claimLapsed claims lapsed rows of the lane and hands them off; more is whether
// there may be others. The default lane is whatever is in no named one, so that no
// row is without a relay.
func (r *Relay) claimLapsed(ctx context.Context, limit int) (claimed int, more bool, err error) {
	receivers := r.registry.LaneReceivers(r.config.Lane)
	request := waybill.LapsedRequest{By: r.id, Limit: limit, Lease: r.stamp(receivers)}
	var open []*route
	var down []*waybill.Receiver // not claimed while their queue takes nothing
	for _, route := range r.routes() {
		served := route.receivers(receivers)
		switch room := route.limit(limit); {
		case len(served) == 0:
		case room <= 0:
			down = append(down, served...)
		default:
			open = append(open, route)
			request.Receivers = append(request.Receivers, waybill.Keys(served)...)
			request.Limit = min(request.Limit, room)
		}
	}
	if r.config.Lane == waybill.DefaultLane {
		request.Receivers, request.Except = nil, append(r.registry.NamedKeys(), waybill.Keys(down)...)
	} else if len(request.Receivers) == 0 {
		return 0, false, nil
	}
	claimed, err = r.carry(ctx, func(ctx context.Context, claims waybill.Claimer) (load, error) {
		requested := time.Now()
		rows, err := claims.ClaimLapsed(ctx, request)
		if err != nil {
			return load{}, fmt.Errorf("claim lapsed rows in lane %s: %w", r.config.Lane, err)
		}
		return r.sort(rows, requested.Add(request.Lease)), nil
	}, open...)
	return claimed, claimed == request.Limit, err
}

// stamp is the lease that a claim for these receivers puts on its rows.
func (r *Relay) stamp(receivers []*waybill.Receiver) time.Duration {
	needs := make([]time.Duration, len(receivers))
	for i, receiver := range receivers {
		needs[i] = receiver.Lease
	}
	return waybill.StampedLease(r.config.StandardLease, needs)
}

func (r *Relay) observe(kind waybill.ObservationKind, count int) {
	if count > 0 {
		r.config.Observer.Observe(waybill.Observation{Kind: kind, Lane: r.config.Lane, Count: count})
	}
}
