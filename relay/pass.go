package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// pass claims once and hands off what it got. Lapsed rows keep their place, which
// is before all that is due, so they go first; looking for them costs a scan of
// what is in flight, so it is done once per poll and not once per claim.
func (r *Relay) pass(ctx context.Context, limit int) (claimed int, err error) {
	if !time.Now().Before(r.sweepAt) {
		var more bool
		if claimed, more, err = r.sweep(ctx, limit); err != nil || more {
			return claimed, err // the next pass sweeps again: nothing due goes before what lapsed
		}
	}
	receivers := r.registry.LaneReceivers(r.config.Lane)
	routes := r.routes()
	if r.turn++; r.turn%2 == 0 { // a backlog for one site must not starve the other
		slices.Reverse(routes)
	}
	for _, route := range routes {
		if ctx.Err() != nil {
			return claimed, nil
		}
		n, err := r.claimDue(ctx, route, route.receivers(receivers), limit-claimed)
		claimed += n
		if err != nil {
			return claimed, err
		}
	}
	return claimed, nil
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

// claimDue claims due rows of the route's receivers and hands them off.
func (r *Relay) claimDue(ctx context.Context, route *route, receivers []*waybill.Receiver, limit int) (int, error) {
	limit = route.limit(limit)
	if limit <= 0 || len(receivers) == 0 {
		return 0, nil
	}
	stamp := r.stamp(receivers)
	// A claim that was sent is seen through, also when the relay stops: an
	// answer that nobody reads would leave rows claimed until their lease.
	rows, err := r.store.Claim(context.WithoutCancel(ctx), waybill.ClaimRequest{
		By: r.id, Receivers: waybill.Keys(receivers), Limit: limit, Lease: stamp,
	})
	if err != nil {
		return 0, fmt.Errorf("claim in lane %s: %w", r.config.Lane, err)
	}
	r.observe(waybill.ObservedClaim, len(rows))
	return len(rows), r.handOff(ctx, route, rows, stamp)
}

// claimLapsed claims lapsed rows of the lane and hands them off; more is whether
// there may be others. The default lane is whatever is in no named one, so that no
// row is without a relay.
func (r *Relay) claimLapsed(ctx context.Context, limit int) (claimed int, more bool, err error) {
	receivers := r.registry.LaneReceivers(r.config.Lane)
	request := waybill.LapsedRequest{By: r.id, Limit: limit, Lease: r.stamp(receivers)}
	var down []*waybill.Receiver // not claimed while their queue takes nothing
	for _, route := range r.routes() {
		served := route.receivers(receivers)
		switch room := route.limit(limit); {
		case len(served) == 0:
		case room <= 0:
			down = append(down, served...)
		default:
			request.Receivers = append(request.Receivers, waybill.Keys(served)...)
			request.Limit = min(request.Limit, room)
		}
	}
	if r.config.Lane == waybill.DefaultLane {
		request.Receivers, request.Except = nil, append(r.registry.NamedKeys(), waybill.Keys(down)...)
	} else if len(request.Receivers) == 0 {
		return 0, false, nil
	}
	rows, err := r.store.ClaimLapsed(context.WithoutCancel(ctx), request)
	if err != nil {
		return 0, false, fmt.Errorf("claim lapsed rows in lane %s: %w", r.config.Lane, err)
	}
	r.observe(waybill.ObservedClaim, len(rows))
	return len(rows), len(rows) == request.Limit, r.dispatch(ctx, rows, request.Lease)
}

// dispatch sorts lapsed rows by what has to become of them.
func (r *Relay) dispatch(ctx context.Context, rows []waybill.ClaimedRow, stamp time.Duration) error {
	bySite := map[waybill.Site][]waybill.ClaimedRow{}
	var unknown, parked []waybill.ClaimedRow
	for _, row := range rows {
		receiver, known := r.registry.Receiver(row.Receiver)
		switch {
		case !known:
			unknown = append(unknown, row)
		case r.config.ParkAfter > 0 && row.LostRuns >= r.config.ParkAfter:
			parked = append(parked, row)
		default:
			bySite[receiver.Site] = append(bySite[receiver.Site], row)
		}
	}
	if err := r.park(ctx, parked); err != nil {
		return err
	}
	if err := r.settleUnknown(ctx, unknown); err != nil {
		return err
	}
	for _, route := range r.routes() {
		if err := r.handOff(ctx, route, bySite[route.site], stamp); err != nil {
			return err
		}
	}
	return nil
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
