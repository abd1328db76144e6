package window

import (
	"fmt"
	"math"
	"time"
)

// Defaults of Rules, and what is the same for every lane.
const (
	DefaultTarget  = 10 * time.Second
	DefaultPoll    = time.Second
	DefaultMargin  = 5 * time.Second
	DefaultMaxHold = 20 // leases

	leaseShare   = 0.5  // of what the workers start within a lease, the most that waits
	smallest     = 2    // a window that holds less would never fill two workers
	first        = 10   // while the drain is unknown
	firstCeiling = 32   // the same, at most
	fastRows     = 1000 // a window larger than that holds fastTime of the drain at most:
	fastTime     = 2    // looking at its rows costs more than it gives. Seconds
)

// Never is the moment of what has not happened.
const Never = time.Duration(math.MinInt64)

// Rules are the parameters of a window and its frontier. Only Lease is required.
type Rules struct {
	// Lease is the shortest lease under which rows of this lane are handed off.
	Lease time.Duration
	// Poll is the longest time between two passes. Defaults to 1s.
	Poll time.Duration
	// Target is how long a row waits in the queue, and how long workers go on
	// without any relay. Defaults to 10s, or a quarter of the lease if that is less;
	// more than a quarter of the lease is refused.
	Target time.Duration
	// Margin is by how much a row must be overtaken before it is claimed again:
	// longer than it takes to send one batch. Defaults to 5s, or a quarter of the
	// lease if that is less.
	Margin time.Duration
	// MaxHold is after how long a lapsed row is claimed again whatever the frontier
	// says, so that no row is held for ever. Defaults to 20 leases; when workers were
	// away for longer, what waited meanwhile is claimed again as they come back, and up
	// to a window of copies is stale.
	MaxHold time.Duration
	// Unordered says that the queue is not first in, first out: to be overtaken then
	// means nothing, and a lapsed row is claimed again at once.
	Unordered bool
}

// withDefaults fills in what was not given and refuses what cannot be.
func (r Rules) withDefaults() (Rules, error) {
	if r.Lease <= 0 || r.Lease > math.MaxInt64/DefaultMaxHold {
		return r, fmt.Errorf("window: lease %s: must be positive, and no centuries", r.Lease)
	}
	for _, d := range []struct {
		name    string
		value   *time.Duration
		initial time.Duration
	}{
		{"poll", &r.Poll, DefaultPoll},
		{"horizon", &r.Target, min(DefaultTarget, r.Lease/4)},
		{"margin", &r.Margin, min(DefaultMargin, r.Lease/4)},
		{"longest hold", &r.MaxHold, DefaultMaxHold * r.Lease},
	} {
		if *d.value < 0 {
			return r, fmt.Errorf("window: %s %s: must be positive", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.initial
		}
	}
	if r.Target > r.Lease/4 {
		return r, fmt.Errorf("window: horizon %s is more than a quarter of the lease %s: lower it, or lengthen the lease to %s",
			r.Target, r.Lease, 4*r.Target)
	}
	return r, nil
}
