package sizing

import (
	"math"
	"time"
)

// Burst is rows that are handed off at once, or as fast as the relays can, to a
// queue that then drains.
type Burst struct {
	Rows  int
	Drain float64       // rows a second
	Lease time.Duration // under which each row is handed off
	// StaleShare is what a stale copy costs a worker, as a share of a run: 0 is
	// nothing, 1 a full slot.
	StaleShare float64
	// RelayRate is how many messages a second the relays send; 0 is no limit.
	RelayRate float64
	// Poll is how long it takes from one relay's pass to the next one's: half of it, on
	// average, passes before a lapse is seen, and so long a message still finds its row.
	Poll time.Duration
}

// held is how long a message finds its row, in seconds.
func (b Burst) held() float64 { return b.Lease.Seconds() + b.Poll.Seconds()/2 }

// Prediction is what becomes of a burst.
type Prediction struct {
	// StaleCopies is about how many messages reach a worker after their rows were
	// claimed again. Where it does not converge it is how many were counted until
	// that was plain.
	StaleCopies int `json:"stale_copies"`
	// Converges is false if the queue never gets done: each copy is stale by the time
	// it is reached, and each lapse adds another.
	Converges bool `json:"converges"`
	// CollapseBacklog is from how many rows on it does not converge; 0 is at none.
	CollapseBacklog int `json:"collapse_backlog"`
	// Finish is when the last row is done; 0 if that is never.
	Finish Seconds `json:"finish_seconds"`
}

// Predict says how many stale copies a burst makes. Without a limit to the relays'
// rate that is a sum, exact for a drain that is perfectly even; with one it is one pass
// over the messages, which is within 1.5 % of a simulation. Both are of a drain that
// is what it is said to be: with one wave of copies, one row a second more or less is
// a lease's worth of them.
func Predict(b Burst) (Prediction, error) {
	switch {
	case !(b.Rows >= 0):
		return Prediction{}, refuse(ErrInvalid, "give 0 rows or more", "rows is %d", b.Rows)
	case b.Drain == 0:
		return Prediction{}, refuse(ErrNoDrain, "start the workers: no lease outlasts that", "drain is 0 with %d rows", b.Rows)
	case !positive.has(b.Drain):
		return Prediction{}, refuse(ErrInvalid, "give rows a second", "drain is %s", decimal(b.Drain))
	case !(b.Lease > 0 && b.Lease <= longest):
		return Prediction{}, refuse(ErrInvalid, "give a lease of more than 0 and at most a hundred years", "lease is %s", b.Lease)
	case !anything.has(b.StaleShare):
		return Prediction{}, refuse(ErrInvalid, "give 0 for nothing, 1 for a full slot", "stale share is %s", decimal(b.StaleShare))
	case !anything.has(b.RelayRate):
		return Prediction{}, refuse(ErrInvalid, "give messages a second, 0 for no limit", "relay rate is %s", decimal(b.RelayRate))
	case !(b.Poll >= 0 && b.Poll <= longest):
		return Prediction{}, refuse(ErrInvalid, "give 0 or more and at most a hundred years", "poll is %s", b.Poll)
	}
	p := Prediction{CollapseBacklog: b.collapse()}
	var stale, finish float64
	if b.RelayRate == 0 {
		stale, p.Converges = b.waves()
		finish = (float64(b.Rows) + stale*b.StaleShare) / b.Drain
	} else {
		stale, finish, p.Converges = b.onePass()
	}
	p.StaleCopies = int(min(math.Round(stale), 1e18))
	if !p.Converges {
		return p, nil
	}
	var err error
	p.Finish, err = secondsOf(finish)
	return p, err
}
