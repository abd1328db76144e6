package sizing

import (
	"math"
	"math/rand/v2"
	"time"
)

// Streams of random numbers, so that more of one leaves the others as they are.
const (
	streamArrivals = iota + 1
	streamService
	streamFaults
)

func stream(seed, which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) }

// poisson returns when rows arrive at random, at that rate.
func poisson(seed uint64, rate float64, rows int) []time.Duration {
	random, at := stream(seed, streamArrivals), 0.0
	arrivals := make([]time.Duration, rows)
	for i := range arrivals {
		at += random.ExpFloat64() / rate
		arrivals[i] = time.Duration(min(at, longest.Seconds()) * 1e9)
	}
	return arrivals
}

// runs makes the times of runs: all the same for a CV of 0, exponential for 1, and
// lognormal for any other.
type runs struct {
	random     *rand.Rand
	mean, cv   float64
	mu, spread float64 // of the normal variable under a lognormal one
}

func newRuns(seed uint64, mean, cv float64) runs {
	variance := math.Log1p(cv * cv)
	return runs{random: stream(seed, streamService), mean: mean, cv: cv, mu: math.Log(mean) - variance/2, spread: math.Sqrt(variance)}
}

func (r runs) next(slowdown float64) time.Duration {
	seconds := r.mean
	switch r.cv {
	case 0:
	case 1:
		seconds *= r.random.ExpFloat64()
	default:
		seconds = math.Exp(r.mu + r.spread*r.random.NormFloat64())
	}
	return time.Duration(math.Round(min(seconds*slowdown, longest.Seconds()) * 1e9))
}
