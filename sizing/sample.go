package sizing

import (
	"math"
	"slices"
	"time"
)

// sample is durations that were measured, sorted.
type sample []time.Duration

func (s sample) sort() sample { slices.Sort(s); return s }

// quantile is the least that a share q of them does not exceed; 0 of none.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(math.Ceil(q*float64(len(s))))-1)]
}

// mean is in seconds.
func (s sample) mean() float64 {
	sum := 0.0
	for _, d := range s {
		sum += d.Seconds()
	}
	return sum / float64(max(1, len(s)))
}

// cv is the standard deviation over the mean, of more than one.
func (s sample) cv() float64 {
	mean, sum := s.mean(), 0.0
	for _, d := range s {
		sum += (d.Seconds() - mean) * (d.Seconds() - mean)
	}
	if mean == 0 || len(s) < 2 {
		return 0
	}
	return math.Sqrt(sum/float64(len(s)-1)) / mean
}
