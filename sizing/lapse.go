package sizing

import (
	"time"

	"github.com/waybill-go/waybill/sizing/window"
)

// isLapsed reports whether a claim still is its row's, and over.
func (e *engine) isLapsed(m message) bool {
	row := &e.rows[m.row]
	return row.claim == m.claim && (row.state == claimed || row.state == lost) && row.expires <= e.now
}

// oldestLapsed reports whether the oldest hand-off that nobody took has lapsed. It
// drops those that somebody took.
func (e *engine) oldestLapsed() bool {
	for e.waiting.len() > 0 {
		m := *e.waiting.first()
		row := &e.rows[m.row]
		if row.claim == m.claim && row.state == claimed && row.handedOff != window.Never {
			return row.expires <= e.now
		}
		e.waiting.pop()
	}
	return false
}

// promote finds the lapsed rows that may be claimed again. Hand-offs lapse in the
// order in which they were made, and the frontier lets them go in that order too.
func (e *engine) promote() {
	for e.oldestLapsed() {
		m := *e.waiting.first()
		if e.fresh != nil && !e.rules.Reclaim(e.now, e.frontier, window.Lapsed{HandedOff: e.rows[m.row].handedOff}) {
			break
		}
		e.ready.push(e.waiting.pop())
	}
	for e.dead.len() > 0 && e.dead.first().expires <= e.now {
		e.ready.push(e.dead.pop().message)
	}
}

// lapsed reports whether the lane has lapsed rows that nobody took.
func (e *engine) lapsed() bool {
	e.promote()
	for e.ready.len() > 0 && !e.isLapsed(*e.ready.first()) {
		e.ready.pop()
	}
	return e.ready.len() > 0 || e.oldestLapsed()
}

// heldUntil is when the lease of a run ends whose worker died: it was extended at
// each third of it until then.
func (e *engine) heldUntil(taken time.Duration) time.Duration {
	third := max(1, e.lease/3)
	return taken + (e.now-taken)/third*third + e.lease
}
