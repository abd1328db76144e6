package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// scope is a part of the lane's rows: those of the named receivers or, with receivers
// nil, of all but the excepted ones.
type scope struct {
	routes            []*route // that they may be bound for
	receivers, except []string
}

// empty reports whether no row can be in it.
func (s scope) empty() bool { return s.receivers != nil && len(s.receivers) == 0 }

// scope returns the rows that are bound for the routes. Without a bound are those of
// receivers that nobody declares: with rest they are in it too, where the lane is the
// default one, so that no row is without a relay.
func (r *Relay) scope(rest bool, routes ...*route) scope {
	s := scope{routes: routes, receivers: []string{}}
	var others []string
	for _, route := range r.routes() {
		keys := waybill.Keys(r.served(route))
		if slices.Contains(routes, route) {
			s.receivers = append(s.receivers, keys...)
		} else {
			others = append(others, keys...)
		}
	}
	if rest && r.config.Lane == waybill.DefaultLane {
		s.receivers, s.except = nil, append(r.registry.NamedKeys(), others...)
	}
	return s
}

// served returns the lane's receivers on the route's site.
func (r *Relay) served(route *route) []*waybill.Receiver {
	return route.receivers(r.registry.LaneReceivers(r.config.Lane))
}

// claimLapsed claims lapsed rows of the lane and hands them off; more is whether
// there may be others. Those of a queue that has a window are claimed apart, because
// some of them are kept back.
func (r *Relay) claimLapsed(ctx context.Context, limit int) (claimed int, more bool, err error) {
	r.passedOver = false
	parts := [][]*route{r.routes()}
	if r.task.outflow != nil {
		parts = [][]*route{{r.task}, {r.local}}
	}
	for _, routes := range parts {
		n, full, err := r.claimLapsedFor(ctx, routes, limit-claimed)
		claimed, more = claimed+n, more || full
		if err != nil || claimed >= limit {
			return claimed, more, err
		}
	}
	return claimed, more, nil
}

// claimLapsedFor claims lapsed rows for those of the routes that take any. Rows of
// receivers that nobody declares go with the task queue's, and are always claimed.
func (r *Relay) claimLapsedFor(ctx context.Context, routes []*route, limit int) (claimed int, full bool, err error) {
	var open []*route
	var hold waybill.Hold
	for _, route := range routes {
		room := route.limit(limit)
		windowed := route.outflow != nil && route.failures == 0 // else it may be the one row that tries the queue
		switch {
		case len(r.served(route)) == 0:
		case room > 0:
			open, limit = append(open, route), min(limit, room)
		case windowed:
			r.passedOver = true
		}
		if windowed {
			hold = route.outflow.hold()
		}
	}
	s := r.scope(slices.Contains(routes, r.task), open...)
	claimed, err = r.claimLapsedOf(ctx, s, hold, limit)
	full = !s.empty() && claimed == limit
	if o := r.task.outflow; o != nil && slices.Contains(open, r.task) && err == nil {
		asked := claimed
		if !full {
			asked++ // less than there was room for
		}
		o.window.Claimed(asked, claimed)
	}
	return claimed, full, err
}

func (r *Relay) claimLapsedOf(ctx context.Context, s scope, hold waybill.Hold, limit int) (int, error) {
	if s.empty() {
		return 0, nil
	}
	request := waybill.LapsedRequest{
		By: r.id, Receivers: s.receivers, Except: s.except, Limit: limit, Hold: hold,
		Lease: r.stamp(r.registry.LaneReceivers(r.config.Lane)),
	}
	return r.carry(ctx, func(ctx context.Context, claims waybill.Claimer) (load, error) {
		requested := time.Now()
		rows, err := claims.ClaimLapsed(ctx, request)
		if err != nil {
			return load{}, fmt.Errorf("claim lapsed rows in lane %s: %w", r.config.Lane, err)
		}
		return r.sort(rows, requested.Add(request.Lease)), nil
	}, s.routes...)
}
