package relay

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing/window"
)

// rules are those of the lane's window, as its receivers are declared now.
func (r *Relay) rules() window.Rules {
	rules := window.Rules{
		Lease: r.config.StandardLease, Poll: r.config.Poll, Target: r.config.WindowHorizon, Margin: r.config.WindowMargin,
	}
	if len(r.served(r.task)) > 0 {
		rules.Lease = r.registry.LaneHandOffLease(r.config.Lane, r.task.site)
		if longest := r.longest(r.task); longest <= math.MaxInt64/window.DefaultMaxHold {
			rules.MaxHold = window.DefaultMaxHold * longest
		}
	}
	if queue, ok := r.task.backend.(waybill.Unordered); ok {
		rules.Unordered = queue.Unordered()
	}
	return rules
}

// bound begins the window of the lane's queue, unless it is off.
func (r *Relay) bound() (*outflow, error) {
	if r.config.WindowOff {
		return nil, nil
	}
	rules := r.rules()
	if longest := rules.Lease / 4; rules.Target > longest {
		return nil, fmt.Errorf("window horizon %s of lane %s is more than a quarter of its shortest hand-off lease, %s: lower it to %s, or lengthen the lease",
			rules.Target, r.config.Lane, rules.Lease, longest)
	}
	return newOutflow(rules, r.task.backend)
}

// watch looks at the lane, where a sweep is due, and at what is out in its queue, as
// often as the window wants that.
func (r *Relay) watch(ctx context.Context, sweeps bool) error {
	o := r.task.outflow
	if o == nil || r.task.failures > 0 {
		return nil
	}
	if sweeps {
		if scope := r.scope(true, r.task); !scope.empty() {
			progress, err := r.store.Progress(ctx, waybill.ProgressRequest{Receivers: scope.receivers, Except: scope.except})
			if err != nil {
				return fmt.Errorf("lane %s: %w", r.config.Lane, err)
			}
			o.advance(progress)
		}
	}
	if time.Now().Before(o.lookAt()) {
		return nil
	}
	rules := r.rules()
	rules.Target = min(rules.Target, rules.Lease/4) // a lease may have become shorter
	if err := o.adjust(rules); err != nil {
		return fmt.Errorf("lane %s: %w", r.config.Lane, err)
	}
	if err := o.look(ctx, r.store); err != nil {
		return fmt.Errorf("lane %s: %w", r.config.Lane, err)
	}
	r.config.Observer.Observe(waybill.Observation{Kind: waybill.ObservedWindow, Lane: r.config.Lane, Site: r.task.site, Window: o.state()})
	return nil
}

// looksNext is when the window may have room again, if it has none.
func (r *Relay) looksNext() (at time.Time, waits bool) {
	o := r.task.outflow
	if o == nil || r.task.failures > 0 || r.lane.pause != nil || o.room() > 0 || o.decision.Stalled {
		return time.Time{}, false
	}
	return o.lookAt(), true
}

// probe hands off one row of a lane that stands still: if workers are there, they take
// it. The oldest that lapsed goes first, whoever handed it off, else the next due one.
// Only what the queue took has told something.
func (r *Relay) probe(ctx context.Context) (claimed int, err error) {
	o := r.task.outflow
	if o == nil || !o.decision.Probe || r.task.failures > 0 {
		return 0, nil
	}
	o.decision.Probe = false // until the next look
	before := r.task.sent
	claimed, err = r.claimLapsedOf(ctx, r.scope(true, r.task), waybill.Hold{}, 1)
	if claimed == 0 && err == nil {
		claimed, err = r.claimDueOf(ctx, r.task, 1)
	}
	if r.task.sent > before {
		o.window.Probed(time.Since(origin))
		r.observe(waybill.ObservedProbe, 1)
	}
	return claimed, err
}

// longest is the longest hand-off lease of the route's receivers.
func (r *Relay) longest(route *route) (longest time.Duration) {
	for _, receiver := range r.served(route) {
		longest = max(longest, r.registry.HandOffLease(receiver))
	}
	return longest
}
