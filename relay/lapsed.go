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

// scope returns the rows that are bound for the routes. The default lane's task queue
// stands for whatever is in no named lane, so that no row is without a relay.
func (r *Relay) scope(routes ...*route) scope {
	s := scope{routes: routes, receivers: []string{}}
	var others []*waybill.Receiver
	for _, route := range r.routes() {
		served := route.receivers(r.registry.LaneReceivers(r.config.Lane))
		if slices.Contains(routes, route) {
			s.receivers = append(s.receivers, waybill.Keys(served)...)
		} else {
			others = append(others, served...)
		}
	}
	if r.config.Lane == waybill.DefaultLane && slices.Contains(routes, r.task) {
		s.receivers, s.except = nil, append(r.registry.NamedKeys(), waybill.Keys(others)...)
	}
	return s
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
// receivers that nobody declares are bound for none, and always claimed.
func (r *Relay) claimLapsedFor(ctx context.Context, routes []*route, limit int) (claimed int, full bool, err error) {
	s := r.scope(routes...)
	var hold waybill.Hold
	s.routes = nil
	for _, route := range routes {
		served := route.receivers(r.registry.LaneReceivers(r.config.Lane))
		switch room := route.limit(limit); {
		case len(served) == 0:
		case room <= 0: // not claimed while their queue takes nothing
			r.passedOver = r.passedOver || route.outflow != nil && route.failures == 0
			keys := waybill.Keys(served)
			s.receivers = slices.DeleteFunc(s.receivers, func(key string) bool { return slices.Contains(keys, key) })
			if s.receivers == nil {
				s.except = append(s.except, keys...)
			}
		default:
			s.routes = append(s.routes, route)
			limit = min(limit, room)
		}
		if route.outflow != nil && route.failures == 0 { // else it is the one row that tries the queue
			hold = route.outflow.hold()
		}
	}
	claimed, err = r.claimLapsedOf(ctx, s, hold, limit)
	full = !s.empty() && claimed == limit
	for _, route := range s.routes {
		if route.outflow != nil && err == nil {
			asked := claimed
			if !full {
				asked++ // less than there was room for
			}
			route.outflow.window.Claimed(asked, claimed)
		}
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
