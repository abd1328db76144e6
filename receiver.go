package waybill

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"
)

// Defaults of a receiver.
const (
	DefaultLane        = "default"
	DefaultLease       = 5 * time.Minute
	DefaultMaxAttempts = 5
)

// AnyEvent in a receiver's Event owes it every event that is fired.
const AnyEvent = "*"

// Site says where a receiver's deliveries run.
type Site string

const (
	SiteTask  Site = "task"  // on workers behind the lane's task queue
	SiteRelay Site = "relay" // in the relay's own process
)

// lanePattern keeps lane names usable as queue names on every backend.
var lanePattern = regexp.MustCompile(`^[a-z0-9]+([-_][a-z0-9]+)*$`)

var errLaneName = errors.New("must be lower-case letters and digits, with single - or _ between them")

// Options are a receiver's declared properties; the zero value is a receiver of
// the default lane. Lane, Site, Lease, Timeout and Backoff are read live at each
// step; MaxAttempts is frozen into the row when the event is fired.
type Options struct {
	// Lane names the relays and the queue that serve the receiver.
	// Defaults to "default".
	Lane string
	// Site is where it runs. Defaults to SiteTask.
	Site Site
	// Lease is how long a claim on one of its rows holds: the time a message
	// has to reach a worker, unless its lane says another (LaneOptions), and again
	// the time a run has to finish. A row whose lease lapsed is claimed anew.
	// Defaults to 5m.
	Lease time.Duration
	// Timeout bounds one run. It cannot be longer than the lease, unless
	// Heartbeat extends the lease. Defaults to the lease.
	Timeout time.Duration
	// Heartbeat extends the lease at every third of it while the receiver runs,
	// up to Timeout, which is then required.
	Heartbeat bool
	// MaxAttempts is how many failed runs make the delivery dead. Defaults to 5.
	MaxAttempts int
	// Backoff is the wait between attempts. Defaults to 2s doubling to 1h.
	Backoff Backoff
	// GiveUpAfter bounds deferrals (see Defer): past that age a deferral is
	// final. Without it a deferral counts as an attempt, and pauses no lane.
	// Defaults to none.
	GiveUpAfter time.Duration
	// Targets makes the receiver a fan-out: one delivery for each string it
	// returns when an event is fired. Defaults to none: one delivery an event.
	Targets *Targets
	// Due makes the receiver a scheduled one: its deliveries are due at the time it
	// returns when an event is fired. Defaults to none: at once.
	Due *DueTime
	// Eager has the firing process run its deliveries as soon as they are committed,
	// if it has a worker.Eager with room; whatever it does not run, a relay hands off as
	// ever. Defaults to false.
	Eager bool
}

// Receiver is one declared consumer of an event. Rows address it by Key.
// Exactly one of Run and RunTx is set. Both return the outcome: nil, an ordinary
// error, RetryAfter, Defer or Permanent.
type Receiver struct {
	Key   string
	Event string // the event's name, or AnyEvent
	Options

	// Run is the plain shape: no transaction is held while it runs, and it is
	// acknowledged after it returned.
	Run func(ctx context.Context, d *Delivery) error
	// RunTx is the transactional shape: it runs inside the transaction that
	// records its acknowledgement. TxKind names the type of tx, and must be what
	// the store hands out.
	RunTx  func(ctx context.Context, tx any, d *Delivery) error
	TxKind string

	decodes bool // it is given the declared type, and not the payload as it is
}

// On registers a plain receiver of the event that T is declared as. What is
// wrong with a declaration is told by Registry.Err.
func On[T any](reg *Registry, key string, run func(ctx context.Context, event T) error, opts Options) {
	reg.addTyped(reflect.TypeFor[T](), Receiver{
		Key: key, Options: opts,
		Run: func(ctx context.Context, d *Delivery) error {
			event, err := Decode[T](reg, d)
			if err != nil {
				return err
			}
			return run(ctx, event)
		},
	})
}

// OnTx registers a transactional receiver. Stores wrap it with their own type of
// transaction: use postgres.OnTx or sqlite.OnTx.
func OnTx[T any](reg *Registry, key, txKind string, run func(ctx context.Context, tx any, event T) error, opts Options) {
	reg.addTyped(reflect.TypeFor[T](), Receiver{
		Key: key, Options: opts, TxKind: txKind,
		RunTx: func(ctx context.Context, tx any, d *Delivery) error {
			event, err := Decode[T](reg, d)
			if err != nil {
				return err
			}
			return run(ctx, tx, event)
		},
	})
}

// OnAny registers a plain receiver of every event. Its targets and its due time, if it
// has any, are functions on a RawEvent.
func OnAny(reg *Registry, key string, run func(ctx context.Context, d *Delivery) error, opts Options) {
	reg.Add(Receiver{Key: key, Event: AnyEvent, Options: opts, Run: run})
}

// Accepts reports whether the receiver is declared for the event of that name.
func (r *Receiver) Accepts(event string) bool { return r.Event == AnyEvent || r.Event == event }

// Transactional reports whether the receiver runs in the acknowledging
// transaction.
func (r *Receiver) Transactional() bool { return r.RunTx != nil }

func (r *Receiver) withDefaults() *Receiver {
	done := *r
	if done.Lane == "" {
		done.Lane = DefaultLane
	}
	if done.Site == "" {
		done.Site = SiteTask
	}
	if done.Lease == 0 {
		done.Lease = DefaultLease
	}
	if done.MaxAttempts == 0 {
		done.MaxAttempts = DefaultMaxAttempts
	}
	done.Backoff = done.Backoff.withDefaults()
	return &done
}

// validate refuses what could only be found out by rows that never run.
func (r *Receiver) validate() error {
	if err := validateName("receiver key", r.Key); err != nil {
		return err
	}
	if err := validateName("event name", r.Event); err != nil {
		return err
	}
	switch {
	case (r.Run == nil) == (r.RunTx == nil):
		return errors.New("exactly one of Run and RunTx must be set")
	case r.RunTx != nil && r.TxKind == "":
		return errors.New("RunTx needs TxKind, the store's type of transaction")
	case !lanePattern.MatchString(r.Lane):
		return fmt.Errorf("lane %q %w", r.Lane, errLaneName)
	case r.Site != SiteTask && r.Site != SiteRelay:
		return fmt.Errorf("site %q is neither %q nor %q", r.Site, SiteTask, SiteRelay)
	case r.Lease < time.Microsecond: // the precision of the database's clock
		return fmt.Errorf("lease %s must be at least 1µs: a lease of nothing lapses before its run starts", r.Lease)
	case r.Timeout < 0:
		return fmt.Errorf("timeout %s is negative", r.Timeout)
	case r.Heartbeat && r.Timeout == 0:
		return errors.New("heartbeat needs a timeout: it extends the lease up to that")
	case !r.Heartbeat && r.Timeout > r.Lease:
		return fmt.Errorf("timeout %s is longer than the lease %s that nothing extends; raise the lease or declare heartbeat", r.Timeout, r.Lease)
	case r.MaxAttempts < 1:
		return fmt.Errorf("max attempts %d is below 1", r.MaxAttempts)
	case r.Event == AnyEvent && r.Targets != nil && r.Targets.of != reflect.TypeFor[RawEvent]():
		return fmt.Errorf("its targets take a %s, and it receives every event: have them take a waybill.RawEvent", r.Targets.of)
	case r.Event == AnyEvent && r.Due != nil && r.Due.of != reflect.TypeFor[RawEvent]():
		return fmt.Errorf("its due time takes a %s, and it receives every event: have it take a waybill.RawEvent", r.Due.of)
	case r.GiveUpAfter < 0:
		return fmt.Errorf("give-up-after %s is negative", r.GiveUpAfter)
	}
	return r.Backoff.validate()
}
