package waybill

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// An eager delivery is run by the process that fired it, right after the commit, and
// without a queue: the process claims exactly the rows that were just written, as a
// relay would. Whatever it does not claim, or loses by dying, relays hand off as ever.

// EagerStore is a Store that tells the process what it has committed.
type EagerStore interface {
	Store
	// OnCommit has f called after each commit of a transaction of the store's own
	// (InTx, and the runs of transactional receivers) in which something was fired that
	// eager receivers are owed at once. f must not block. It reports whether somebody
	// will see to it; if not, the lanes are woken. There is one f at a time, and stop
	// takes it away.
	OnCommit(f func(ctx context.Context, fired EagerFired) bool) (stop func(), err error)
	// ClaimFired claims rows that are due and were never claimed, of the named events
	// and receivers, as Claim does, unless the receiver's lane is paused at that moment. They count as not handed off: no queue has a message
	// of them, and whoever finds their leases over may claim them at once.
	ClaimFired(ctx context.Context, request FiredRequest) ([]ClaimedRow, error)
	// Wake wakes the relays of lanes.
	Wake(ctx context.Context, lanes ...string)
}

// EagerFired is what a transaction has fired for eager receivers.
type EagerFired struct {
	Events []int64
	Lanes  []string // in which they are owed, and whose relays were not woken for them
}

// FiredRequest asks for rows of events that were just fired.
type FiredRequest struct {
	By        string
	Events    []int64
	Receivers []ReceiverLease // and their lanes
	Limit     int
	Lease     time.Duration // what the claim stamps on each row; the take stamps the receivers' own
}

// Committed gathers what is fired in one transaction, for a store: whom to tell once
// it is committed. Its zero value is ready. It is not safe for use by many goroutines.
type Committed struct {
	lanes map[string]bool // whose relays are to be woken
	eager map[string]bool // whose relays are to be woken if nobody sees to the events
	ids   map[int64]bool  // events that eager receivers are owed
}

// Fired adds events with their ids. What is due after now is nobody's to be told of: a
// relay's poll finds it.
func (c *Committed) Fired(reg *Registry, plans []Plan, ids []int64, now time.Time) {
	for i, plan := range plans {
		for _, delivery := range plan.Deliveries {
			receiver, ok := reg.Receiver(delivery.Receiver)
			switch {
			case !ok || delivery.DueAt.After(now):
			case receiver.Eager:
				add(&c.eager, receiver.Lane)
				add(&c.ids, ids[i])
			default:
				add(&c.lanes, receiver.Lane)
			}
		}
	}
}

// Lane adds a lane whose relays are to be woken.
func (c *Committed) Lane(lane string) { add(&c.lanes, lane) }

// Merge adds what another one has gathered.
func (c *Committed) Merge(other Committed) {
	for lane := range other.lanes {
		add(&c.lanes, lane)
	}
	for lane := range other.eager {
		add(&c.eager, lane)
	}
	for id := range other.ids {
		add(&c.ids, id)
	}
}

func add[K comparable](set *map[K]bool, key K) {
	if *set == nil {
		*set = map[K]bool{}
	}
	(*set)[key] = true
}

// CommitHook is how a store keeps the function that EagerStore.OnCommit is given. Its
// zero value is ready.
type CommitHook struct {
	mu sync.Mutex
	f  *func(ctx context.Context, fired EagerFired) bool
}

// Set keeps f until stop is called. It returns an error if there is one already.
func (o *CommitHook) Set(f func(ctx context.Context, fired EagerFired) bool) (stop func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f != nil {
		return nil, errors.New("the store tells somebody already what it commits")
	}
	o.f = &f
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.f == &f {
			o.f = nil
		}
	}, nil
}

// Tell tells of what was committed, and returns the lanes that are left to wake, sorted.
func (o *CommitHook) Tell(ctx context.Context, committed Committed) (wake []string) {
	if len(committed.ids) > 0 {
		o.mu.Lock()
		f := o.f
		o.mu.Unlock()
		fired := EagerFired{Events: slices.Sorted(maps.Keys(committed.ids)), Lanes: slices.Sorted(maps.Keys(committed.eager))}
		if f == nil || !(*f)(ctx, fired) {
			for lane := range committed.eager {
				committed.Lane(lane)
			}
		}
	}
	return slices.Sorted(maps.Keys(committed.lanes))
}
