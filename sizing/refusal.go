package sizing

import (
	"errors"
	"fmt"
	"strconv"
)

// Reasons of a Refusal: ask with errors.Is.
var (
	// ErrInvalid: a figure is negative, not a number, or else out of its range.
	ErrInvalid = errors.New("invalid figure")
	// ErrMissing: a figure is needed that was not given.
	ErrMissing = errors.New("figure is missing")
	// ErrConflict: two figures contradict each other.
	ErrConflict = errors.New("figures contradict each other")
	// ErrNoDrain: nothing settles. No lease outlasts that.
	ErrNoDrain = errors.New("nothing drains")
	// ErrArrivals: rows arrive as fast as they drain, or faster.
	ErrArrivals = errors.New("arrivals outrun the drain")
	// ErrFewSamples: the drain was measured on too few rows.
	ErrFewSamples = errors.New("too few samples")
	// ErrNeverBusy: the queue ran empty, so nobody saw what the workers can do.
	ErrNeverBusy = errors.New("queue ran empty")
	// ErrRunTooLong: one run, or one row of a batch, is longer than the lease.
	ErrRunTooLong = errors.New("run is longer than the lease")
	// ErrTooLong: the wait is beyond any lease.
	ErrTooLong = errors.New("wait is too long")
	// ErrTooLarge: too many rows to simulate one by one.
	ErrTooLarge = errors.New("too many rows to simulate")
)

// Refusal is a question that has no answer. It says what is wrong, with the figure,
// and what to do.
type Refusal struct {
	Reason  error  // one of the above
	Problem string // what is wrong
	Hint    string // what to do
}

func (r *Refusal) Error() string { return r.Problem + "; " + r.Hint }

func (r *Refusal) Unwrap() error { return r.Reason }

func refuse(reason error, hint, problem string, args ...any) error {
	return &Refusal{Reason: reason, Problem: fmt.Sprintf(problem, args...), Hint: hint}
}

// decimal writes a figure for people: as short as it can be, at most two decimals
// from 1 on.
func decimal(value float64) string {
	if value >= 1 && value < 1e15 {
		value = float64(int64(value*100+0.5)) / 100
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
