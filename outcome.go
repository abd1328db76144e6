package waybill

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxRetryDelay is the longest wait that RetryAfter or Defer can ask for.
const MaxRetryDelay = 24 * time.Hour

// maxErrorLength bounds last_error, in bytes.
const maxErrorLength = 2000

// RetryAfter is the outcome of a run that failed and wants its next attempt in
// exactly wait, without jitter. It spends an attempt. Wrap it with %w to give the
// reason; a wait above MaxRetryDelay is cut to that, and a negative one is an ordinary
// error that says so.
func RetryAfter(wait time.Duration) error {
	if wait < 0 {
		return fmt.Errorf("retry after %s: the wait is negative", wait)
	}
	return &retryAfter{wait: wait}
}

// Defer is the outcome of a run that could not do its work yet, because the
// destination throttles, say. It spends no attempt, for as long as the receiver's
// GiveUpAfter allows; a receiver that declares none spends an attempt, as with
// RetryAfter. The wait is spread over one to two times what is asked, so that what
// was deferred together does not return together.
//
// It also pauses the receiver's lane for the wait that is asked for, for every relay
// and worker: a destination that throttles gets a lane of its own. A run for one
// target of a fan-out puts off its own delivery and no other. A wait that is not
// positive is an ordinary error that says so.
func Defer(wait time.Duration) error {
	if wait <= 0 {
		return fmt.Errorf("defer %s: the wait must be positive", wait)
	}
	return &retryAfter{wait: wait, deferred: true}
}

type retryAfter struct {
	wait     time.Duration
	deferred bool
}

func (e *retryAfter) Error() string {
	if e.deferred {
		return fmt.Sprintf("deferred for %s", e.wait)
	}
	return fmt.Sprintf("retry after %s", e.wait)
}

// Permanent is the outcome of a run that no later attempt can mend: the delivery
// is dead at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ err error }

func (e *permanent) Error() string { return e.err.Error() }
func (e *permanent) Unwrap() error { return e.err }

// IsPermanent reports whether the outcome makes a delivery dead at once.
func IsPermanent(err error) bool {
	var p *permanent
	return errors.As(err, &p)
}

// Outcome is what a run did to its row.
type Outcome struct {
	Status    Status        // Succeeded, Failed, Dead or Orphaned
	Attempted bool          // the run spends an attempt
	Deferred  bool          // the run spends neither an attempt nor a start
	Wait      time.Duration // Failed: until the row is due again
	Pause     time.Duration // Deferred: for how long the lane is paused; zero is not at all
	Error     string        // valid UTF-8 without NUL, at most 2000 bytes
	Notice    string        // for the log: what was asked for and not given, the same text each time
}

// cutNotice leaves out what was asked for, which Error tells: notices are logged
// once each, and must be few.
var cutNotice = fmt.Sprintf("waits above %s are cut to that", MaxRetryDelay)

// Judge turns a receiver's returned error into the outcome of the run. at is the
// database's time of the outcome, random is in [0, 1).
func Judge(r *Receiver, d *Delivery, err error, at time.Time, random float64) Outcome {
	if err == nil {
		return Outcome{Status: Succeeded, Attempted: true}
	}
	out := Outcome{Status: Failed, Attempted: true, Error: cleanText(err.Error())}
	var asked *retryAfter
	switch {
	case IsPermanent(err):
		out.Status = Dead
		return out
	case errors.As(err, &asked) && asked.deferred && r.GiveUpAfter > 0:
		return deferral(r, d, out, asked.wait, at, random)
	case asked != nil:
		out.Wait = min(asked.wait, MaxRetryDelay)
		if asked.deferred {
			out.Notice = "deferrals count as attempts: the receiver declares no give-up-after"
		} else if out.Wait < asked.wait {
			out.Notice = cutNotice
		}
	default:
		out.Wait = r.Backoff.Wait(d.Attempt, random)
	}
	if d.Attempt >= d.MaxAttempts {
		out.Status, out.Wait = Dead, 0
	}
	return out
}

// deferral bounds a deferral by the age of the debt, not of the event: a replayed
// old event may be deferred like a new one.
func deferral(r *Receiver, d *Delivery, out Outcome, wait time.Duration, at time.Time, random float64) Outcome {
	out.Attempted, out.Deferred = false, true
	if age := at.Sub(d.DueAt); age >= r.GiveUpAfter {
		out.Status = Dead
		out.Error = cleanText(fmt.Sprintf("given up after %s of deferrals (give-up-after %s): %s",
			age.Round(time.Second), r.GiveUpAfter, out.Error))
		return out
	}
	if wait > MaxRetryDelay {
		wait, out.Notice = MaxRetryDelay, cutNotice
	}
	out.Wait = min(wait+time.Duration(random*float64(wait)), MaxRetryDelay)
	if d.Target == "" {
		out.Pause = wait
	}
	return out
}

// OrphanedOutcome settles a row whose receiver is no longer declared.
func OrphanedOutcome(receiver string) Outcome {
	return Outcome{Status: Orphaned, Error: cleanText(fmt.Sprintf("receiver %q is not declared", receiver))}
}

// ParkedOutcome settles a row whose runs keep ending without an outcome, as those
// of a receiver that kills its process do.
func ParkedOutcome(lostRuns int) Outcome {
	return Outcome{Status: Dead, Error: fmt.Sprintf(
		"parked: %d runs were begun and none recorded an outcome; the receiver kills its process or outlives its lease", lostRuns)}
}

// cleanText makes text storable everywhere: valid UTF-8, no NUL, bounded.
func cleanText(text string) string { return cut(text, maxErrorLength) }

// cut makes text storable everywhere, in at most so many bytes.
func cut(text string, length int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length-len("…")], "") + "…"
}
