package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// listen turns the store's wake-ups into a signal, until ctx ends. The poll is the
// floor: while nothing can be heard, rows wait a poll longer and no more.
func (r *Relay) listen(ctx context.Context) *sync.WaitGroup {
	var listening sync.WaitGroup
	if r.config.PollOnly {
		return &listening
	}
	listening.Go(func() {
		ear := ear{lane: r.config.Lane, observer: r.config.Observer}
		for failures := 1; ctx.Err() == nil; failures++ {
			started := time.Now()
			err := r.store.Listen(ctx, r.config.Lane, func() { ear.hears(nil); r.signal() })
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("the store stopped listening")
			}
			if time.Since(started) > outageCap {
				failures = 1
			}
			wait := outageWait(failures)
			if errors.Is(err, waybill.ErrDeaf) {
				wait = deafWait // nobody but an operator can change that
			}
			ear.hears(err)
			r.log.Warn("not listening for wake-ups, polling meanwhile", "error", err, "again_in", wait.Round(time.Millisecond).String())
			sleep(ctx, wait)
		}
	})
	return &listening
}

// deafWait is the wait before wake-ups that do not arrive are listened for again.
const deafWait = 10 * time.Minute

// ear tells whether wake-ups are heard, when that changes.
type ear struct {
	lane          string
	observer      waybill.Observer
	told, hearing bool
}

func (e *ear) hears(err error) {
	if e.told && e.hearing == (err == nil) {
		return
	}
	e.told, e.hearing = true, err == nil
	e.observer.Observe(waybill.Observation{Kind: waybill.ObservedListen, Lane: e.lane, Err: err})
}

// signal wakes the relay; signals that nobody has seen yet are one.
func (r *Relay) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stayAlert has the relay look for more for a wake interval from now on: whoever has
// woken it, or fired what it found, leaves out the wake-ups of what is fired meanwhile.
func (r *Relay) stayAlert() {
	if r.looks() {
		r.alert = time.Now().Add(r.config.WakeInterval)
	}
}

// looks reports whether the relay ever looks. One that does not goes on until it
// finds nothing: others may have held what it passed over.
func (r *Relay) looks() bool { return r.config.WakeInterval > 0 }

// idle waits for a wake-up, for room in a bounded queue that was full, or for the
// next sweep: the poll, the next try of a queue that is down, or the end of a pause.
// A relay that is alert waits no longer than until its next look, as long as the last
// one began before the alert was over: what was fired in the last moment of it is
// found too.
func (r *Relay) idle(ctx context.Context, looked time.Time) {
	wait, source := time.Until(r.sweepAt), waybill.WakePoll
	if at, ok := r.looksNext(); ok {
		wait = min(wait, time.Until(at))
	}
	if looked.Before(r.alert) && waybill.WakeLook < wait {
		wait, source = waybill.WakeLook, waybill.WakeLooked
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-r.wake:
		source = waybill.WakeNotify
		r.stayAlert()
	case <-r.task.freed():
		source = waybill.WakeRoom
	case <-r.local.freed():
		source = waybill.WakeRoom
	case <-timer.C:
	}
	r.config.Observer.Observe(waybill.Observation{Kind: waybill.ObservedWake, Lane: r.config.Lane, Wake: source})
}
