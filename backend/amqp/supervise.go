package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	firstWait   = 250 * time.Millisecond // after the first failure in a row, doubled by each
	lastWait    = 5 * time.Second        // the longest: leases run while a broker that is back goes unnoticed
	refusedWait = 15 * time.Second       // after a refused login, which no waiting mends
	steady      = 5 * time.Second        // a session that lasted that long ends a row of failures
	askWait     = time.Second            // how old a try is before another is made because somebody asks
)

// link is a session made for a purpose.
type link interface {
	alive() bool
	serve(ctx context.Context) error // until dead or ctx ends
	close()
}

// supervisor keeps one link up: one goroutine opens it, waits for its death, closes
// it and opens the next, with a growing wait between. So however many ask for the
// link, the broker sees one attempt at a time.
type supervisor[L link] struct {
	open func(ctx context.Context) (L, error)
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	begin  sync.Once
	ended  chan struct{}
	asked  chan struct{} // somebody wants a try now

	mu       sync.Mutex
	phase    phase
	link     L
	err      error         // the last failure
	failed   int           // how many tries have failed
	earliest time.Time     // while resting: no try before that, whoever asks
	changed  chan struct{} // closed when any of this changes
}

type phase int

const (
	trying phase = iota
	up
	resting
)

func newSupervisor[L link](open func(context.Context) (L, error), log *slog.Logger) *supervisor[L] {
	s := &supervisor[L]{
		open: open, log: log,
		ended: make(chan struct{}), asked: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// start begins to keep the link up, once.
func (s *supervisor[L]) start() {
	s.begin.Do(func() {
		go func() {
			defer close(s.ended)
			s.run()
		}()
	})
}

// stop closes the link and waits until that is done. A supervisor that was not
// started never will be.
func (s *supervisor[L]) stop() {
	s.cancel()
	s.begin.Do(func() { close(s.ended) })
	<-s.ended
}

func (s *supervisor[L]) run() {
	var failures, refusals int
	for s.ctx.Err() == nil {
		select {
		case <-s.asked: // it is being done
		default:
		}
		begun := time.Now()
		s.set(func() { s.phase = trying })
		link, err := s.open(s.ctx)
		opened := err == nil
		if opened {
			if failures > 0 {
				s.log.Info("connected to rabbitmq again")
			}
			s.set(func() { s.phase, s.link, s.err = up, link, nil })
			err = link.serve(s.ctx)
			if time.Since(begun) >= steady {
				failures = 0
			}
		}
		if s.ctx.Err() == nil {
			refusals = countRefusals(refusals, err)
			failures++
			wait, earliest := backoff(failures), begun.Add(askWait)
			if refused(err) && refusals > 1 {
				wait = refusedWait
				earliest = time.Now().Add(wait)
			}
			s.set(func() {
				s.phase, s.err, s.earliest = resting, err, earliest
				if !opened {
					s.failed++
				}
			})
			s.report(failures, refusals, err, wait)
			if opened {
				link.close()
			}
			s.rest(wait, earliest)
		} else if opened {
			link.close()
		}
	}
}

// refused tells an error that another try meets as well, until a person has done
// something: a wrong password, a missing vhost, a lack of permission, with Strict a
// queue that was declared otherwise.
func refused(err error) bool {
	reply := code(err)
	return reply == amqp.AccessRefused || reply == amqp.NotAllowed || errors.Is(err, errStrict)
}

// countRefusals returns how many times in a row the broker has refused. The library
// takes a connection that is lost during the login for a refused one, so one that
// the broker did not put in words counts from the second on.
func countRefusals(n int, err error) int {
	var reply *amqp.Error
	switch {
	case !refused(err):
		return 0
	case errors.As(err, &reply) && reply.Server:
		return n + 2
	default:
		return n + 1
	}
}

// backoff returns the wait after so many failures in a row, half of it at least.
func backoff(failures int) time.Duration {
	wait := min(firstWait<<min(failures-1, 6), lastWait)
	return wait/2 + rand.N(wait)
}

// report tells of an outage once, and each time when a person has to act.
func (s *supervisor[L]) report(failures, refusals int, err error, wait time.Duration) {
	level := slog.LevelDebug
	switch {
	case refusals > 1:
		level = slog.LevelError
	case failures == 1:
		level = slog.LevelWarn
	}
	s.log.Log(s.ctx, level, "no connection to rabbitmq", "error", err, "again_in", wait.Round(time.Millisecond).String())
}

// rest waits, or until somebody asks and may.
func (s *supervisor[L]) rest(wait time.Duration, earliest time.Time) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
			return
		case <-s.asked:
			if !time.Now().Before(earliest) {
				return
			}
		}
	}
}

func (s *supervisor[L]) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// state is a supervisor's state at one moment.
type state[L link] struct {
	phase    phase
	link     L
	err      error
	failed   int
	earliest time.Time
	changed  <-chan struct{}
}

func (s *supervisor[L]) look() state[L] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return state[L]{s.phase, s.link, s.err, s.failed, s.earliest, s.changed}
}

// await waits for a link that is up, until ctx ends. It returns false then.
func (s *supervisor[L]) await(ctx context.Context) (L, bool) {
	s.start()
	for {
		now := s.look()
		if now.phase == up && now.link.alive() {
			return now.link, ctx.Err() == nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return now.link, false
		case <-s.ctx.Done():
			return now.link, false
		}
	}
}

// current returns the link that is up, or why there is none. It waits for a try
// that is under way, and has one made if the last was not just now: an outage that
// is over is noticed by the first to ask.
func (s *supervisor[L]) current(ctx context.Context) (L, error) {
	s.start()
	var none L
	before := s.look().failed
	for {
		now := s.look()
		switch {
		case s.ctx.Err() != nil:
			return none, ErrClosed
		case now.phase == up && now.link.alive():
			return now.link, nil
		case now.phase == resting && (now.failed > before || time.Now().Before(now.earliest)):
			return none, fmt.Errorf("%w: %w", ErrUnavailable, now.err)
		case now.phase == resting:
			select {
			case s.asked <- struct{}{}:
			default: // somebody has
			}
		}
		select {
		case <-now.changed:
		case <-s.ctx.Done():
		case <-ctx.Done():
			if now.err != nil {
				return none, fmt.Errorf("%w: %w: %w", ErrUnavailable, context.Cause(ctx), now.err)
			}
			return none, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}
