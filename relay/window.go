package relay

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing/window"
)

// outflow bounds how many of a relay's rows wait in a queue, by the window, and says
// which lapsed rows may be claimed again, by the frontier. Package window decides;
// this is what it is told, and what is done about it. All of it is in memory: a relay
// that starts anew begins with a small window.
type outflow struct {
	rules    window.Rules  // what it was begun with
	fresh    window.Window // one that knows nothing yet
	window   *window.Window
	decision window.Decision
	depth    waybill.BacklogReader // nil: the queue cannot tell how much it has

	sent     sentRows
	progress waybill.Progress // of the lane, as of the last sweep
	frontier waybill.Stamp    // the newest hand-off that is known to be taken; zero: none is

	lookedAt time.Time
	wholeAt  time.Time     // when all rows were looked at last
	takenAt  time.Time     // when a take was last seen, by this clock
	askedAt  time.Time     // when the queue was asked for its depth last
	ready    int           // messages that it then had for workers; 0 if it could not tell
	working  time.Duration // spent on claims and hand-offs since the last look
}

const (
	depthTimeout = time.Second
	depthGap     = time.Second // between two questions, and since the last take
	depthOutage  = 15 * time.Second
	wholeGap     = time.Minute // rows that a queue hands out of turn are seen by then
	awayPolls    = 5           // longer than that without a look, and a second, and what was known is too old
)

// origin is what the moments count from that package window is told.
var origin = time.Now()

// newOutflow returns the window of a queue, or nil where there is none: what has room
// for so many rows only cannot outgrow their leases.
func newOutflow(rules window.Rules, backend waybill.TaskBackend) (*outflow, error) {
	switch backend.(type) {
	case noBackend, waybill.Bounded:
		return nil, nil
	}
	o := &outflow{}
	o.depth, _ = backend.(waybill.BacklogReader)
	return o, o.adjust(rules)
}

// adjust begins anew where the rules are others.
func (o *outflow) adjust(rules window.Rules) error {
	if o.window != nil && o.rules == rules {
		return nil
	}
	fresh, err := window.New(rules)
	if err != nil {
		return err
	}
	o.rules, o.fresh = rules, *fresh
	o.begin()
	return nil
}

// begin forgets how fast workers are, and whether they are there. What is out is
// remembered.
func (o *outflow) begin() {
	fresh := o.fresh
	o.window = &fresh
	o.decision, o.lookedAt, o.takenAt = window.Decision{}, time.Time{}, time.Now()
}

// room is how many rows may be claimed until the next look.
func (o *outflow) room() int { return o.window.Room() }

// lookAt is when the next look is due: at the latest, or as soon as there is no more
// room.
func (o *outflow) lookAt() time.Time {
	gap := window.LookGap(o.sent.ids())
	if time.Since(o.takenAt) > depthGap { // there is no hurry
		gap = window.LongestGap
	}
	if o.room() > 0 || o.decision.Stalled {
		gap = max(gap, o.decision.LookIn)
	}
	return o.lookedAt.Add(gap)
}

// look finds out what became of what is out, and sets the window.
func (o *outflow) look(ctx context.Context, store waybill.Store) error {
	now := time.Now()
	if away := max(awayPolls*o.rules.Poll, time.Second); !o.lookedAt.IsZero() && now.Sub(o.lookedAt)-o.working > away {
		o.begin() // the lane was paused, or the database away: that nobody took anything tells nothing
	}
	whole := now.Sub(o.wholeAt) >= min(o.rules.Lease/4, wholeGap)
	found, err := o.sent.look(ctx, store, whole)
	if err != nil {
		return err
	}
	if whole {
		o.wholeAt = now
	}
	if found.taken > 0 {
		o.takenAt, o.ready = now, 0
	}
	o.pass(found.frontier)
	o.sent.part(func(row sentRow) bool {
		return o.window.Rules().Waits(moment(o.frontier), moment(row.message.Claim.At), now.After(row.lapses))
	})
	look := window.Look{
		Waiting: len(o.sent.queued), Lost: o.sent.lost(), Taken: found.taken, Settled: found.settled,
		Lapsed: o.progress.Lapsed, TakenAt: moment(o.progress.Taken),
	}
	o.askDepth(ctx, now, &look)
	o.decision = o.window.Look(now.Sub(origin), look)
	if look.DepthKnown {
		o.sent.partOldest(len(o.sent.queued) - look.Depth)
	}
	if o.ready > 0 {
		o.decision.Probe = false // what is in the queue is probe enough
	}
	o.lookedAt, o.working = now, 0
	return nil
}

// advance accounts for what the lane's claimed rows tell.
func (o *outflow) advance(progress waybill.Progress) {
	if progress.Taken > o.progress.Taken {
		o.takenAt = time.Now()
	}
	o.progress = progress
	o.pass(progress.HandedOff)
}

// pass moves the frontier on.
func (o *outflow) pass(handedOff waybill.Stamp) { o.frontier = max(o.frontier, handedOff) }

// askDepth asks the queue how many messages it has, where rows wait and none is
// taken: it may have lost them. A message that a consumer holds counts where the queue
// can tell, because its row may not be taken yet.
func (o *outflow) askDepth(ctx context.Context, now time.Time, look *window.Look) {
	quiet := now.Sub(o.takenAt) >= depthGap && now.Sub(o.askedAt) >= depthGap
	if o.depth == nil || !quiet || look.Waiting == 0 && look.Lost == 0 && !look.Lapsed {
		return
	}
	o.askedAt, o.ready = now, 0
	ctx, cancel := context.WithTimeout(ctx, depthTimeout)
	defer cancel()
	backlog, err := o.depth.Backlog(ctx)
	if err != nil {
		o.askedAt = now.Add(depthOutage)
		return
	}
	ready, known := backlog.Ready.Value()
	running, _ := backlog.Running.Value()
	o.ready = int(ready)
	look.Depth, look.DepthKnown = int(ready+running), known
}

// hold is which lapsed rows are not to be claimed again yet.
func (o *outflow) hold() waybill.Hold {
	rules := o.window.Rules()
	if rules.Unordered {
		return waybill.Hold{}
	}
	hold := waybill.Hold{Longest: rules.MaxHold}
	if o.frontier != 0 {
		hold.Overtaken = o.frontier - waybill.Stamp(rules.Margin.Microseconds())
	}
	return hold
}

// sends accounts for a message that is in the queue, or may be. A frontier that is
// ahead of a claim is one of a clock that was set back since.
func (o *outflow) sends(message waybill.Message, lapses time.Time) {
	if message.Claim.At < o.frontier {
		o.frontier, o.progress = message.Claim.At, waybill.Progress{}
		o.begin()
	}
	o.sent.add(message, lapses)
}

// moment is a stamp of the database as package window has it. Such moments are
// compared with each other alone.
func moment(stamp waybill.Stamp) time.Duration {
	if stamp == 0 {
		return window.Never
	}
	return time.Duration(stamp) * time.Microsecond
}

func (o *outflow) state() waybill.Window {
	return waybill.Window{
		Size: o.decision.Size, Waiting: len(o.sent.queued), Drain: o.decision.Drain, Stalled: o.decision.Stalled,
	}
}
