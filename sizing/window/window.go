package window

import (
	"math"
	"time"
)

// Look is what a relay sees of the rows that it handed off, and of its lane.
type Look struct {
	// Waiting is how many of its own rows nobody took yet: those that Rules.Waits.
	Waiting int
	// Lost is how many of its own rows nobody took either, although the queue has come
	// past them or says that it has not that many: none of them counts as waiting.
	Lost int
	// Unsent is how many it has claimed and not sent yet.
	Unsent int
	// Taken and Settled are how many of its own were taken and settled since the
	// last look. A row that was both counts in both.
	Taken, Settled int
	// Lapsed says that the lane has lapsed rows that nobody took, whoever handed
	// them off.
	Lapsed bool
	// TakenAt is the newest moment at which a row of the lane is known to have been
	// taken, or Never: in a queue that several relays share, a relay's own rows may wait
	// for long behind those of others.
	TakenAt time.Duration
	// Depth is how many messages the queue has, where DepthKnown: what it has lost
	// then does not count as waiting.
	Depth      int
	DepthKnown bool
}

// Decision is what a relay may do until its next look.
type Decision struct {
	// Claim is how many rows it may claim, in as many claims as it likes.
	Claim int
	// Probe asks for one row instead: the oldest lapsed row of the lane that nobody
	// took, whoever handed it off, else the next due one.
	Probe bool
	// LookIn is when to look again at the latest.
	LookIn time.Duration

	// Size, Drain and Stalled are for people. Size is the window in rows, Drain in
	// rows a second and 0 while unknown.
	Size    int
	Drain   float64
	Stalled bool
}

// Window bounds how many rows one relay has waiting in one queue. It is not safe for
// concurrent use.
type Window struct {
	rules   Rules
	drain   Drain
	stall   stall
	size    float64
	takenAt time.Duration
	grownAt time.Duration
	room    int
	filled  bool // the last claim got all that it asked for
}

// New returns a window for a relay that has nothing out.
func New(rules Rules) (*Window, error) {
	rules, err := rules.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Window{rules: rules, size: first, takenAt: Never, grownAt: Never}, nil
}

// Rules returns the rules with their defaults filled in.
func (w *Window) Rules() Rules { return w.rules }

// Look decides by what was seen.
func (w *Window) Look(now time.Duration, look Look) Decision {
	waiting := look.Waiting
	if look.DepthKnown {
		waiting = min(waiting, look.Depth)
	}
	patience := w.rules.patience(&w.drain, look)
	w.drain.Look(now, look.Settled, waiting > 0)

	taken := look.Taken > 0 || look.TakenAt > w.takenAt
	w.takenAt = max(w.takenAt, look.TakenAt)
	if w.stall.look(now, taken, look.Waiting > 0 || look.Lost > 0 || look.Lapsed, patience) {
		w.size = smallest
		w.drain.Forget()
	}

	decision := Decision{LookIn: w.rules.lookIn(false), Stalled: w.stall.stalled}
	if w.stall.stalled {
		decision.Probe = w.stall.due(now)
	} else {
		starved := waiting+look.Unsent == 0 && look.Taken > 0 && w.filled
		w.resize(now, starved)
		if starved {
			decision.LookIn = w.rules.lookIn(true)
		}
		decision.Claim = max(0, w.rows()-waiting-look.Unsent)
	}
	w.room = decision.Claim
	decision.Size = w.rows()
	if rate, known := w.drain.Rate(); known {
		decision.Drain = rate
	}
	return decision
}

// Room is how many rows may still be claimed before the next look.
func (w *Window) Room() int { return w.room }

// Claimed accounts for a claim that asked for some rows and got so many.
func (w *Window) Claimed(asked, got int) {
	w.room -= got
	w.filled = got == asked
}

// Probed accounts for a probe that the queue accepted.
func (w *Window) Probed(now time.Duration) {
	w.stall.probed(now, w.rules.Lease)
	w.filled = true
}

// resize follows the drain. A queue that ran dry under a window that was full wants
// a larger one than the drain can tell yet; where the last claim was not full there
// simply was no more to do. It never more than doubles at a time, and not before what it
// let out last could be seen.
func (w *Window) resize(now time.Duration, starved bool) {
	want := w.size
	if rate, known := w.drain.Rate(); known {
		want = rate * w.rules.Target.Seconds()
	}
	if starved {
		want = max(want, 2*w.size)
	}
	want = max(smallest, min(want, 2*w.size, w.ceiling()))
	if want > w.size {
		if w.grownAt != Never && now-w.grownAt < LongestGap {
			return
		}
		w.grownAt = now
	}
	w.size = want
}

// ceiling is half of what the workers start within a lease; while that is unknown a
// fixed number, or what they were seen to do if it is more.
func (w *Window) ceiling() float64 {
	rate, known := w.drain.Rate()
	ceiling := leaseShare * w.rules.Lease.Seconds() * w.drain.AtLeast()
	if !known {
		ceiling = max(firstCeiling, ceiling)
	}
	return min(ceiling, max(fastRows, fastTime*rate))
}

func (w *Window) rows() int { return int(math.Ceil(w.size)) }
