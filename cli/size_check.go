package cli

import (
	"errors"

	"github.com/waybill-go/waybill/sizing"
)

// Exit codes of the calculator and the simulator, besides those of every command.
const (
	exitTight   = 4 // the lease holds, and little is missing
	exitLapses  = 5 // the lease lapses, or the queue never gets done
	exitUnknown = 6 // that cannot be told
)

// verdict is what is to be thought of a lease.
type verdict string

const (
	fine   verdict = "fine"
	tight  verdict = "tight"
	lapses verdict = "lapses"
)

// tightShare is how much of a lease may be spent waiting.
const tightShare = 0.8

func judge(answer sizing.Answer) verdict {
	switch wait, lease := answer.Wait.Duration(), answer.Judged.Duration(); {
	case wait > lease || !answer.Converges:
		return lapses
	case wait.Seconds() > tightShare*lease.Seconds():
		return tight
	}
	return fine
}

// exit ends the command with the verdict's exit code.
func (v verdict) exit() error {
	switch v {
	case tight:
		return &exitError{code: exitTight}
	case lapses:
		return &exitError{code: exitLapses}
	}
	return nil
}

// unanswered ends a check of which there is no answer. Where nothing drains, where
// more arrives than the workers can do and where one run is too long, that is one.
func (q *sizeQuestion) unanswered(err error) error {
	worded := refusal(err)
	var usage *usageError
	if errors.As(worded, &usage) {
		return worded
	}
	code := exitUnknown
	switch {
	case errors.Is(err, sizing.ErrNoDrain), errors.Is(err, sizing.ErrRunTooLong):
		code = exitLapses
	case errors.Is(err, sizing.ErrArrivals) && q.load.Arrivals.Value >= q.drain():
		code = exitLapses
	}
	return &exitError{code, worded}
}

// drain is what the workers do at best.
func (q *sizeQuestion) drain() float64 {
	if q.load.Drain.Given() {
		return q.load.Drain.Value
	}
	return float64(q.load.Workers.Value) / q.load.Service.Value.Seconds()
}

// exitError ends a command with an exit code of its own. err is reported, unless the
// command has said everything.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "see above"
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }
