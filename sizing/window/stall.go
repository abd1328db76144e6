package window

import "time"

// stall watches for a lane that stands still: rows wait and none is taken. The
// workers are away, or the queue has lost its messages; only a probe can tell.
type stall struct {
	quiet   time.Duration // since when nothing was taken although rows waited
	began   bool
	stalled bool
	probeAt time.Duration
	gap     time.Duration // to the next probe
}

// look accounts for a look and reports whether the stall begins with it. patience
// is how long a lane may stand still before.
func (s *stall) look(now time.Duration, taken, waiting bool, patience time.Duration) bool {
	switch {
	case taken || !waiting:
		*s = stall{quiet: now, began: true}
	case !s.began:
		s.quiet, s.began = now, true
	case !s.stalled && now-s.quiet >= patience:
		s.stalled, s.probeAt, s.gap = true, now, patience
		return true
	}
	return false
}

// due reports whether a probe is to be sent.
func (s *stall) due(now time.Duration) bool { return s.stalled && now >= s.probeAt }

// probed puts the next probe off, by twice as long each time. Only a probe that was
// sent counts: one that the queue did not take has told nothing.
func (s *stall) probed(now, longest time.Duration) {
	s.probeAt = now + s.gap
	s.gap = max(s.gap, min(2*s.gap, longest))
}

// leastPatience is what a busy machine may take for nothing at all.
const leastPatience = time.Second

// patience is how long a lane stands still before it counts as stalled: ten rows'
// time at its drain, and a lease while the drain is unknown. In a queue that is known
// to be empty nothing is waited for. It is five polls and a second at least.
func (r Rules) patience(drain *Drain, look Look) time.Duration {
	longest := r.Lease
	if rate, known := drain.Rate(); known && rate > 0 {
		longest = min(longest, duration(10/rate))
	}
	if look.DepthKnown && look.Depth == 0 {
		longest = 0
	}
	return max(5*r.Poll, longest, leastPatience)
}
