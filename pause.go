package waybill

import (
	"context"
	"fmt"
	"time"
)

// Pause is why a lane stands still: no relay claims its rows, due or lapsed, and no
// worker takes one of them. It ends by itself, by the database's clock, and nothing
// of a row is changed by it.
type Pause struct {
	Lane   string
	Until  Stamp         // when it ends; zero: when somebody resumes the lane
	Left   time.Duration // until then, at the moment it was read; zero likewise
	By     string        // the owner id of the worker whose run was deferred, or an operator
	Reason string
	Since  Stamp // since when the lane has been paused without a break
}

// PauseRequest asks for a pause.
type PauseRequest struct {
	Lane   string
	For    time.Duration // from now, to the microsecond; zero: until somebody resumes the lane
	By     string
	Reason string
	// Exact replaces a pause that is in force, also by an earlier end: it is for
	// operators. Without it the later end stays, with who set it and why, so that
	// a deferral never shortens what somebody else asked for.
	Exact bool
}

// Checked returns the request as a store writes it: with text that every database
// holds, and with no length that would be cut to none. It refuses what is no lane,
// and a negative length.
func (p PauseRequest) Checked() (PauseRequest, error) {
	if !lanePattern.MatchString(p.Lane) {
		return p, fmt.Errorf("pause of lane %q: that is no name of a lane", p.Lane)
	}
	if p.For < 0 {
		return p, fmt.Errorf("pause of lane %s for %s: the time is negative", p.Lane, p.For)
	}
	if p.For > 0 {
		p.For = max(p.For, time.Microsecond)
	}
	p.By, p.Reason = cleanText(p.By), cleanText(p.Reason)
	return p, nil
}

// Pauser keeps the pauses of lanes, of which each lane has one at most. Every
// method bounds its own time, and costs the same however many rows there are.
type Pauser interface {
	// PauseLane pauses a lane and returns the pause that is then in force, which
	// need not be the one asked for; see PauseRequest.
	PauseLane(ctx context.Context, request PauseRequest) (Pause, error)
	// ResumeLane ends the pause of a lane, whoever set it, and reports whether
	// there was one. Relays see it at their next poll.
	ResumeLane(ctx context.Context, lane string) (ended bool, err error)
	// Pauses returns the pauses in force, sorted by lane.
	Pauses(ctx context.Context) ([]Pause, error)
}

// DeferralPause returns the pause that a recorded outcome makes of its lane: that of
// a deferral, for as long as was asked for and not as the row's own wait was spread.
// A deferral of one target of a fan-out says nothing of the others, and pauses
// nothing. It must be asked for only once the outcome landed on the row: a run that
// had lost its row has nothing to say.
func DeferralPause(r *Receiver, d *Delivery, out Outcome, by string) (request PauseRequest, pauses bool) {
	if out.Pause <= 0 {
		return PauseRequest{}, false
	}
	return PauseRequest{
		Lane: r.Lane, For: out.Pause, By: by,
		Reason: fmt.Sprintf("%s, delivery %d: %s", r.Key, d.ID, out.Error),
	}, true
}
