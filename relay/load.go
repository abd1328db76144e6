package relay

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// load is what one claim brought, by what has to become of it.
type load struct {
	claimed         int
	until           time.Time // when the lease that the claim put on each row ends, at the earliest
	bound           map[*route][]waybill.ClaimedRow
	parked, unknown []waybill.ClaimedRow
}

func newLoad(rows []waybill.ClaimedRow, until time.Time) load {
	return load{claimed: len(rows), until: until, bound: map[*route][]waybill.ClaimedRow{}}
}

// sort sorts lapsed rows.
func (r *Relay) sort(rows []waybill.ClaimedRow, until time.Time) load {
	lapsed := newLoad(rows, until)
	for _, row := range rows {
		receiver, known := r.registry.Receiver(row.Receiver)
		switch {
		case !known:
			lapsed.unknown = append(lapsed.unknown, row)
		case r.config.ParkAfter > 0 && row.LostRuns >= r.config.ParkAfter:
			lapsed.parked = append(lapsed.parked, row)
		default:
			route := r.route(receiver.Site)
			lapsed.bound[route] = append(lapsed.bound[route], row)
		}
	}
	return lapsed
}

// carry claims rows and hands them off, and returns how many it claimed. routes are
// those that its rows may be bound for.
func (r *Relay) carry(ctx context.Context, claim claim, routes ...*route) (int, error) {
	if o := r.task.outflow; o != nil {
		defer func(begun time.Time) { o.working += time.Since(begun) }(time.Now())
	}
	if joint := r.joint(routes); len(joint) > 0 {
		claimed, err := r.carryJointly(ctx, claim, joint)
		if !r.fellApart(err) {
			return claimed, err
		}
		if ctx.Err() != nil {
			return 0, nil // nothing is claimed
		}
	}
	// A claim that was sent is seen through, also when the relay stops: an
	// answer that nobody reads would leave rows claimed until their lease.
	got, err := claim(context.WithoutCancel(ctx), r.store)
	if err != nil {
		return 0, err
	}
	r.observe(waybill.ObservedClaim, got.claimed)
	return got.claimed, r.dispatch(ctx, got)
}

// dispatch does with claimed rows what has to become of them.
func (r *Relay) dispatch(ctx context.Context, got load) error {
	if err := r.park(ctx, got.parked); err != nil {
		return err
	}
	if err := r.settleUnknown(ctx, got.unknown); err != nil {
		return err
	}
	for _, route := range r.routes() {
		if err := r.handOff(ctx, route, got.bound[route], got.until); err != nil {
			return err
		}
	}
	return nil
}
