package window

import (
	"math"
	"time"
)

const (
	sampleRows     = 8
	sampleShortest = 500 * time.Millisecond
	sampleLongest  = 5 * time.Second
	drainMemory    = 10 * time.Second
)

// Drain estimates how many rows a second the workers settle, from what one relay
// sees of its own rows. It counts what was settled, never what was taken: an idle
// pool takes a row for each slot at once, and that is no rate. The zero Drain knows
// nothing yet.
type Drain struct {
	rate  float64
	known bool
	low   float64 // while unknown: the most that was seen, of a queue that ran empty

	open    bool
	since   time.Duration
	settled int
	busy    bool // rows waited at every look of this sample
}

// Rate returns rows a second, and whether it is known.
func (d *Drain) Rate() (rate float64, known bool) { return d.rate, d.known }

// AtLeast returns what the drain is known to reach, in rows a second; 0 if nothing
// is known.
func (d *Drain) AtLeast() float64 {
	if d.known {
		return d.rate
	}
	return d.low
}

// Look adds what one look saw: how many rows settled since the last one, and
// whether any still waits.
func (d *Drain) Look(now time.Duration, settled int, waiting bool) {
	if !d.open {
		d.begin(now, waiting)
		return
	}
	d.settled += settled
	d.busy = d.busy && waiting
	took := now - d.since
	if d.settled >= sampleRows && took >= sampleShortest || took >= d.longest() {
		d.add(took.Seconds())
		d.begin(now, waiting)
	}
}

// Forget makes the drain unknown: the workers stopped, and may come back as others.
func (d *Drain) Forget() { *d = Drain{} }

func (d *Drain) begin(now time.Duration, waiting bool) {
	d.open, d.since, d.settled, d.busy = true, now, 0, waiting
}

// longest is when a sample of few rows is closed: a slow lane needs longer for them.
func (d *Drain) longest() time.Duration {
	if !d.known || sampleRows/d.rate <= sampleLongest.Seconds() {
		return sampleLongest
	}
	return duration(sampleRows / d.rate)
}

// add accounts for a closed sample. Where the queue ran empty the workers could
// have done more, so what they did is a lower bound.
func (d *Drain) add(seconds float64) {
	rate := float64(d.settled) / seconds
	switch {
	case !d.busy && d.known:
		d.rate = max(d.rate, rate)
	case !d.busy:
		d.low = max(d.low, rate)
	case d.settled == 0:
		d.rate /= 2
	case !d.known:
		d.rate, d.known = rate, true
	default:
		weight := 1 - math.Exp(-seconds/drainMemory.Seconds())
		if d.settled < sampleRows {
			weight /= 2
		}
		d.rate += weight * (rate - d.rate)
	}
}

// duration returns seconds as a Duration, cut to the longest there is.
func duration(seconds float64) time.Duration {
	if seconds >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}
