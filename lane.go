package waybill

import (
	"fmt"
	"time"
)

// LaneOptions are a lane's declared properties. They are read live at each claim, as
// the lane of a receiver is.
type LaneOptions struct {
	// HandOffLease is how long a row of the lane holds its claim while its message
	// waits in the queue: longer than receivers' own leases where the queue is deep and
	// a dead worker has to be noticed soon, shorter where runs take long and the queue
	// does not. A run has its receiver's own lease all the same, which the take stamps.
	// After this the row may be claimed anew: then a message that was lost is made good,
	// and one that was only late is refused. At least 1µs, the precision of the
	// database's clock. Defaults to each receiver's own lease.
	HandOffLease time.Duration
}

// AddLane declares what a lane is apart from its receivers, once in a process. Any lane
// that a receiver names exists without it, and one that is declared here exists without
// receivers: whoever moves the last of them away leaves its relays, its workers and its
// pause in order. What is wrong with a declaration is told by Err.
func (r *Registry) AddLane(name string, options LaneOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := validateLane(name, options); err != nil {
		r.fail(fmt.Errorf("lane %q: %w", name, err))
		return
	}
	if _, ok := r.lanes[name]; ok {
		r.fail(fmt.Errorf("lane %q: it is declared already; every lane has one declaration", name))
		return
	}
	r.lanes[name] = options
}

func validateLane(name string, options LaneOptions) error {
	switch {
	case !lanePattern.MatchString(name):
		return errLaneName
	case options.HandOffLease != 0 && options.HandOffLease < time.Microsecond:
		return fmt.Errorf("hand-off lease %s must be at least 1µs: a lease of nothing lapses before its message arrives", options.HandOffLease)
	}
	return nil
}

// Lane returns what AddLane declared of a lane, false for a lane that only receivers
// name.
func (r *Registry) Lane(name string) (LaneOptions, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	options, ok := r.lanes[name]
	return options, ok
}

// HandOffLease is how long a row of the receiver holds its claim from the hand-off on,
// until it is taken: its lane's hand-off lease, else its own lease.
func (r *Registry) HandOffLease(receiver *Receiver) time.Duration {
	if lane, _ := r.Lane(receiver.Lane); lane.HandOffLease > 0 {
		return lane.HandOffLease
	}
	return receiver.Lease
}

// LaneHandOffLease is the shortest hand-off lease of a lane's receivers of that site,
// DefaultLease if it has none: the longest wait in its queue in which nothing lapses.
func (r *Registry) LaneHandOffLease(lane string, site Site) time.Duration {
	shortest := time.Duration(0)
	for _, receiver := range r.LaneReceivers(lane) {
		if lease := r.HandOffLease(receiver); receiver.Site == site && (shortest == 0 || lease < shortest) {
			shortest = lease
		}
	}
	if shortest == 0 {
		return DefaultLease
	}
	return shortest
}
