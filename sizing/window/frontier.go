package window

import "time"

// Lapsed is a claimed row whose lease is over.
type Lapsed struct {
	// HandedOff is when its message was sent, or Never: it was given back.
	HandedOff time.Duration
	// Taken says that a worker took it, and must have died.
	Taken bool
}

// Reclaim reports whether a lapsed row may be claimed again. frontier is the newest
// hand-off known to be taken in this queue, or Never. A row that a worker took, or
// that is in no queue, may at once; any other only once its message is known to be
// gone, since that message can still take it and a second one would be stale.
func (r Rules) Reclaim(now, frontier time.Duration, row Lapsed) bool {
	return r.Unordered || row.Taken || row.HandedOff == Never || row.HandedOff < r.Bound(now, frontier)
}

// Bound is the same for a query: lapsed rows that nobody took may be claimed again
// if they were handed off before that moment. It is what the frontier has overtaken
// by the margin, or what has been held for too long.
func (r Rules) Bound(now, frontier time.Duration) time.Duration {
	if r.Unordered {
		return now
	}
	bound := now - r.MaxHold
	if frontier != Never {
		bound = max(bound, frontier-r.Margin)
	}
	return bound
}

// Waits reports whether a row that was handed off, and that nobody took, counts as
// waiting in the queue. It does not where it was overtaken by so much that its message
// is lost, or as good as; nor, in a queue where that means nothing, once it lapsed. It
// keeps its claim until somebody claims it again.
func (r Rules) Waits(frontier, handedOff time.Duration, lapsed bool) bool {
	if r.Unordered {
		return !lapsed
	}
	return frontier == Never || handedOff >= frontier-max(r.Target, r.Margin)
}
