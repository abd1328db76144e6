package waybill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Causes of a run's context: ask with context.Cause.
var (
	// ErrLeaseLost: the run no longer holds its row, or cannot be sure of it.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTimeout: the run reached the receiver's timeout.
	ErrTimeout = errors.New("receiver timeout")
	// ErrStopping: the worker stops and has no more time to wait.
	ErrStopping = errors.New("worker is stopping")
)

// LeaseMargin is how long before the database's deadline a process considers a
// lease over: time for a cancelled receiver to return while the row is still held.
func LeaseMargin(lease time.Duration) time.Duration { return min(5*time.Second, lease/10) }

// StampedLease is the lease that a claim stamps on every row it takes, given the
// default lease and the leases of the receivers it claims for: what they need,
// where they agree and the default covers it, else the default; and a tenth more,
// so that rows handed off at once need no second write (see NeedsExtension).
func StampedLease(standard time.Duration, needs []time.Duration) time.Duration {
	stamp := standard
	if len(needs) > 0 && slices.Min(needs) == slices.Max(needs) {
		stamp = min(standard, needs[0])
	}
	return stamp + stamp/10
}

// NeedsExtension reports whether a row with that much of its lease left has to be
// given its receiver's own lease before it is handed off: it costs no write where
// what is left is that lease, or up to a tenth more. A receiver of a mixed lane is
// cut down to its own lease as well, so that a lost message does not wait for the
// longest lease of its neighbours.
func NeedsExtension(left, need time.Duration) bool {
	return left < need || left > need+need/10
}

// Lease is a worker's hold on one row. Its deadline is kept on the monotonic
// clock of this process and starts before the request for it was sent, so it
// always ends before the database's: no clock has to agree with another.
type Lease struct {
	message  Message
	duration time.Duration

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
	cancel   context.CancelCauseFunc
}

// NewLease returns the lease of a row that was requested at the given moment.
func NewLease(requested time.Time, message Message, duration time.Duration) *Lease {
	return &Lease{
		message: message, duration: duration,
		deadline: requested.Add(duration - LeaseMargin(duration)),
	}
}

// Deadline returns the moment from which the lease counts as over.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Context returns a context for the run, which ends with cause ErrLeaseLost at
// the lease's deadline. stop releases it and must be called.
func (l *Lease) Context(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = cancel
	// A timer, and not a look at each heartbeat: the loss has to be noticed at
	// the deadline also while nothing beats.
	l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
	return ctx, func() {
		l.timer.Stop()
		cancel(context.Canceled)
	}
}

func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.deadline); left > 0 {
		l.timer.Reset(left) // extended meanwhile
		return
	}
	l.cancel(ErrLeaseLost)
}

// Extender is the part of a Store that a heartbeat uses.
type Extender interface {
	Extend(ctx context.Context, rows []Extension) ([]int64, error)
}

// Keep extends the lease at every third of it until ctx, the context of the run,
// ends. A claim that was lost ends the run at once, with cause ErrLeaseLost. A
// store that cannot be reached does not: it is asked again, until the deadline
// of the lease passes by itself.
func (l *Lease) Keep(ctx context.Context, store Extender, beat func(error)) {
	period := l.duration / 3
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := l.extend(ctx, store)
		if ctx.Err() != nil {
			return
		}
		beat(err)
		if err != nil {
			timer.Reset(period / 4)
		} else {
			timer.Reset(period)
		}
	}
}

func (l *Lease) extend(ctx context.Context, store Extender) error {
	requested := time.Now()
	held, err := store.Extend(ctx, []Extension{{Message: l.message, Lease: l.duration}})
	if err != nil {
		return fmt.Errorf("extend lease of delivery %d: %w", l.message.DeliveryID, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(held) == 0 {
		l.cancel(ErrLeaseLost)
		return fmt.Errorf("extend lease of delivery %d: %w", l.message.DeliveryID, ErrLeaseLost)
	}
	l.deadline = requested.Add(l.duration - LeaseMargin(l.duration))
	return nil
}
