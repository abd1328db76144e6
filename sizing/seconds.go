package sizing

import (
	"math"
	"strconv"
	"time"
)

// longest is the longest time that is worked with: a hundred years.
const longest = 100 * 365 * 24 * time.Hour

// Seconds is a duration that is a number of seconds in JSON.
type Seconds time.Duration

// Duration returns it as such.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// String returns the form of a time.Duration.
func (s Seconds) String() string { return time.Duration(s).String() }

// MarshalJSON writes a number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return err
	}
	*s, err = secondsOf(value)
	return err
}

// secondsOf returns a number of seconds, to the nanosecond.
func secondsOf(value float64) (Seconds, error) {
	if !(math.Abs(value) <= longest.Seconds()) {
		return 0, refuse(ErrTooLong, "add workers, or spread the work", "%s seconds are more than a hundred years", decimal(value))
	}
	return Seconds(math.Round(value * float64(time.Second))), nil
}

// roundLease rounds a wait up to a lease that people would write: to 1 s up to a
// minute, to 5 s up to five, to 30 s up to half an hour, else to a minute.
func roundLease(wait float64) float64 {
	step := 60.0
	switch {
	case wait <= 60:
		step = 1
	case wait <= 300:
		step = 5
	case wait <= 1800:
		step = 30
	}
	return max(1, step*math.Ceil(wait/step))
}
