package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// route is the way from the lane to one site: the queue, and how it is doing.
type route struct {
	site    waybill.Site
	backend waybill.TaskBackend
	tx      waybill.TxBackend // the same, if it may share the store's transactions; else nil

	failures int       // outages in a row; 0 is well
	retryAt  time.Time // when the queue is tried again
	err      error     // the last outage
	full     bool      // it had no room when it was last asked
	outflow  *outflow  // what may wait in it; nil if that is not bounded

	apart   int       // joint claims in a row that failed because of the queue
	jointAt time.Time // when the next may be tried

	refusals map[int64]int // how often in a row each row was refused
	accepted int           // messages that the queue took
	sent     int           // and those that it may have taken
}

// routes returns the ways out of the lane.
func (r *Relay) routes() []*route { return []*route{r.task, r.local} }

// route returns the way to the site.
func (r *Relay) route(site waybill.Site) *route {
	if site == waybill.SiteRelay {
		return r.local
	}
	return r.task
}

// maxRefusals bounds the memory of refused rows.
const maxRefusals = 10_000

func newRoute(site waybill.Site, backend waybill.TaskBackend) *route {
	if backend == nil {
		backend = noBackend{site}
	}
	tx, _ := backend.(waybill.TxBackend)
	return &route{site: site, backend: backend, tx: tx, refusals: map[int64]int{}}
}

// receivers returns those that run on the route's site.
func (r *route) receivers(all []*waybill.Receiver) []*waybill.Receiver {
	var served []*waybill.Receiver
	for _, receiver := range all {
		if receiver.Site == r.site {
			served = append(served, receiver)
		}
	}
	return served
}

// limit returns how many rows may be claimed for the route: none while its queue
// is down, one to find out whether it is back, and never more than it has room for,
// or than may wait in it. Claiming for a queue that takes nothing would churn the rows.
func (r *route) limit(batch int) int {
	switch {
	case r.failures > 0 && time.Now().Before(r.retryAt):
		return 0
	case r.failures > 0:
		return min(batch, 1)
	}
	if bounded, ok := r.backend.(waybill.Bounded); ok {
		room := bounded.Room()
		r.full = room == 0
		return min(batch, room)
	}
	if r.outflow != nil {
		return min(batch, r.outflow.room())
	}
	return batch
}

// sends accounts for a message that is in the queue, or may be.
func (r *route) sends(message waybill.Message, lapses time.Time) {
	r.sent++
	if r.outflow != nil {
		r.outflow.sends(message, lapses)
	}
}

// freed is signalled when a queue that was full has room again; it is nil, and so
// never, for any other. What counts is what the claim was told: by now there may
// be room, and the signal of it sent.
func (r *route) freed() <-chan struct{} {
	if bounded, ok := r.backend.(waybill.Bounded); ok && r.full {
		return bounded.Freed()
	}
	return nil
}

// failed notes an outage and returns the wait until the next try.
func (r *route) failed(err error) time.Duration {
	r.failures++
	r.err = err
	wait := outageWait(r.failures)
	r.retryAt = time.Now().Add(wait)
	return wait
}

func (r *route) recovered() { r.failures, r.err = 0, nil }

// fellApart notes a joint claim that failed because of the queue and returns the
// wait until the next: none at first, because a single message may be to blame,
// then that of an outage.
func (r *route) fellApart() (wait time.Duration) {
	if r.apart++; r.apart > 1 {
		wait = outageWait(r.apart - 1)
		r.jointAt = time.Now().Add(wait)
	}
	return wait
}

// outage returns why the queue is down, or nil.
func (r *route) outage() error {
	if r.failures == 0 {
		return nil
	}
	return fmt.Errorf("queue of site=%s: %w", r.site, r.err)
}

// refused returns how long a row that was refused stays back: 1 s doubling to 15 s.
func (r *route) refused(id int64) time.Duration {
	if len(r.refusals) >= maxRefusals {
		clear(r.refusals)
	}
	r.refusals[id]++
	return waybill.Backoff{Base: time.Second, Cap: outageCap}.Ceiling(r.refusals[id])
}

// noBackend stands where none was configured. It refuses rows at their delivery, so
// that a missing queue harms none but the receivers that asked for it, and never
// lets a row run at a site that was not meant. Its error stops the claims for that
// site, but for one now and then.
type noBackend struct{ site waybill.Site }

func (b noBackend) Enqueue(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	err := fmt.Errorf("no backend for site=%s: configure one for this relay", b.site)
	return waybill.AllResults(len(messages), waybill.EnqueueRefused, err), err
}
