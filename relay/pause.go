package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// standstill is what a relay knows of its lane's pause.
type standstill struct {
	pause  *waybill.Pause // as it was read last; nil if there was none
	lookAt time.Time      // when the pauses are read next
}

// paused reports whether the lane is paused. It reads the pauses once per poll, and
// when the one it knows should be over: that may have been prolonged. The rest of a
// pause counts from when its answer is there, so that it never ends early.
func (r *Relay) paused(ctx context.Context) (bool, error) {
	if time.Now().Before(r.lane.lookAt) {
		return r.lane.pause != nil, nil
	}
	pauses, err := r.store.Pauses(ctx)
	if err != nil {
		return false, fmt.Errorf("look for a pause of lane %s: %w", r.config.Lane, err)
	}
	before := r.lane.pause
	r.lane = standstill{lookAt: time.Now().Add(r.config.Poll)}
	if i := slices.IndexFunc(pauses, func(p waybill.Pause) bool { return p.Lane == r.config.Lane }); i >= 0 {
		r.lane.pause = &pauses[i]
		if pauses[i].Until != 0 {
			r.lane.lookAt = time.Now().Add(min(r.config.Poll, pauses[i].Left))
		}
	}
	r.tell(before, r.lane.pause)
	return r.lane.pause != nil, nil
}

// tell says that a pause has begun, or is over.
func (r *Relay) tell(before, now *waybill.Pause) {
	switch {
	case before == nil && now != nil:
		until := "somebody resumes it"
		if now.Until != 0 {
			until = now.Until.String()
		}
		r.config.Observer.Observe(waybill.Observation{Kind: waybill.ObservedPause, Lane: r.config.Lane})
		r.log.Info("lane is paused, nothing of it is claimed", "until", until, "by", now.By, "reason", now.Reason, "since", now.Since.String())
	case before != nil && now == nil:
		r.config.Observer.Observe(waybill.Observation{Kind: waybill.ObservedResume, Lane: r.config.Lane})
		r.log.Info("lane goes on, its pause is over", "by", before.By, "reason", before.Reason, "since", before.Since.String())
	}
}

// pausedMeanwhile reports whether the lane was paused between a claim and its
// hand-off. That the pauses cannot be read is no reason to keep rows back: the next
// pass reports it, and a worker takes none of a paused lane.
func (r *Relay) pausedMeanwhile(ctx context.Context) bool {
	paused, err := r.paused(ctx)
	return err == nil && paused
}
