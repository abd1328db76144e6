package sizing

import (
	"time"

	"github.com/waybill-go/waybill/sizing/window"
)

// relay is one that claims and sends.
type relay struct {
	id       int
	epoch    uint32 // counts its deaths: what it had planned then does not happen
	unsent   queue[message]
	passAt   time.Duration // the next pass, once all is sent
	own      []sentRow     // that were not seen settled
	window   *window.Window
	decision window.Decision
	lookedAt time.Duration
}

// sentRow is one that a relay remembers.
type sentRow struct {
	message
	at    time.Duration
	taken bool
}

// startRelay starts one that remembers nothing.
func (e *engine) startRelay(id int, at time.Duration) {
	r := &e.nodes[id]
	*r = relay{id: id, epoch: r.epoch, lookedAt: window.Never}
	if e.fresh != nil {
		fresh := *e.fresh
		r.window = &fresh
	}
	e.at(at, relayPasses, id, r.epoch)
}

// pass claims once and begins to send what it got. After a claim that was full, the
// next pass follows at once.
func (e *engine) pass(r *relay) {
	r.passAt = e.now + e.poll
	if e.brokerDown { // nothing is claimed for a queue that takes nothing
		e.at(r.passAt, relayPasses, r.id, r.epoch)
		return
	}
	asked, looked := e.batch, false
	if r.window != nil {
		if r.lookedAt == window.Never || e.now-r.lookedAt >= window.LookGap(len(r.own)) {
			e.look(r)
			looked = true
		}
		asked = min(asked, r.window.Room())
		r.passAt = e.now + r.decision.LookIn
	}
	got := e.claimReady(r, asked)
	got += e.claimDue(r, asked-got)
	if r.window != nil {
		if asked > 0 {
			r.window.Claimed(asked, got)
		}
		if looked && r.decision.Probe {
			e.probe(r)
		}
	}
	if got > 0 && got == e.batch && (r.window == nil || r.window.Room() > 0) {
		r.passAt = e.now
	}
	if got == 0 && e.out == 0 { // nothing to do before the next row arrives
		if e.next == len(e.rows) {
			return
		}
		if due := e.dueAt(e.next); due > r.passAt {
			r.passAt += (due - r.passAt + e.poll - 1) / e.poll * e.poll
		}
	}
	e.send(r)
}

// look tells the window what became of the rows that the relay handed off.
func (e *engine) look(r *relay) {
	seen := window.Look{Unsent: r.unsent.len(), Lapsed: e.lapsed(), TakenAt: window.Never}
	if e.busy > 0 { // what was settled since is not seen
		seen.TakenAt = e.takenAt
	}
	kept := r.own[:0]
	for _, own := range r.own {
		row := &e.rows[own.row]
		if row.claim != own.claim {
			continue // somebody else's by now
		}
		if row.state != claimed && !own.taken {
			own.taken = true
			seen.Taken++
		}
		if row.state == settled {
			seen.Settled++
			continue
		}
		if row.state == claimed && e.rules.Waits(e.frontier, own.at, row.expires <= e.now) {
			seen.Waiting++
		}
		kept = append(kept, own)
	}
	r.own, r.lookedAt = kept, e.now
	r.decision = r.window.Look(e.now, seen)
	if e.watch != nil {
		e.watch(claim{relay: r, decision: r.decision, waiting: seen.Waiting})
	}
}

// claimReady claims lapsed rows, which keep their place and so go first.
func (e *engine) claimReady(r *relay, most int) int {
	e.promote()
	var got []message
	for len(got) < most && e.ready.len() > 0 {
		if m := e.ready.pop(); e.isLapsed(m) {
			got = append(got, e.claim(r, m.row))
		}
	}
	e.tell(r, got, false)
	return len(got)
}

// claimDue claims rows that were never claimed.
func (e *engine) claimDue(r *relay, most int) int {
	var got []message
	for len(got) < most && e.next < len(e.rows) && e.dueAt(e.next) <= e.now {
		got = append(got, e.claim(r, int32(e.next)))
		e.next++
	}
	e.tell(r, got, false)
	return len(got)
}

// probe claims one row for a lane that stands still: the oldest lapsed one that
// nobody took, whoever handed it off, else the next due one.
func (e *engine) probe(r *relay) {
	e.promote()
	for e.ready.len() > 0 {
		if m := e.ready.pop(); e.isLapsed(m) {
			e.tell(r, []message{e.claim(r, m.row)}, true)
			r.window.Probed(e.now)
			return
		}
	}
	switch {
	case e.oldestLapsed():
		e.tell(r, []message{e.claim(r, e.waiting.pop().row)}, true)
	case e.next < len(e.rows) && e.dueAt(e.next) <= e.now:
		e.tell(r, []message{e.claim(r, int32(e.next))}, true)
		e.next++
	default:
		return
	}
	r.window.Probed(e.now)
}

// claim claims a row for a relay. The token is another one with every claim.
func (e *engine) claim(r *relay, id int32) message {
	row := &e.rows[id]
	if e.watch != nil {
		e.were = append(e.were, *row)
	}
	if row.state == owed {
		e.out++
	}
	row.claim++
	row.state, row.handedOff, row.expires = claimed, e.now, e.now+e.held
	m := message{row: id, claim: row.claim}
	e.waiting.push(m)
	r.unsent.push(m)
	if r.window != nil {
		r.own = append(r.own, sentRow{message: m, at: e.now})
	}
	e.writes += e.claimCost
	return m
}

// tell tells a test what was claimed.
func (e *engine) tell(r *relay, rows []message, probe bool) {
	if e.watch != nil && len(rows) > 0 {
		e.watch(claim{relay: r, decision: r.decision, rows: rows, were: e.were, probe: probe})
		e.were = e.were[:0]
	}
}

// send begins to send what was claimed; where that takes no time it is done at once.
func (e *engine) send(r *relay) {
	if r.unsent.len() == 0 || e.sendTime == 0 {
		for r.unsent.len() > 0 {
			e.enqueue(r.unsent.pop())
		}
		e.at(max(e.now, r.passAt), relayPasses, r.id, r.epoch)
		return
	}
	e.at(e.now+e.sendTime, relaySends, r.id, r.epoch)
}

// sendNext is the moment at which the queue has the next message.
func (e *engine) sendNext(r *relay) {
	if e.brokerDown {
		e.giveBack(r)
	} else if r.unsent.len() > 0 {
		e.enqueue(r.unsent.pop())
	}
	if r.unsent.len() > 0 {
		e.at(e.now+e.sendTime, relaySends, r.id, r.epoch)
		return
	}
	e.at(max(e.now, r.passAt), relayPasses, r.id, r.epoch)
}

// giveBack gives back what a queue that is down did not take: those rows have no
// message, and may be claimed again at once.
func (e *engine) giveBack(r *relay) {
	for r.unsent.len() > 0 {
		m := r.unsent.pop()
		if row := &e.rows[m.row]; row.claim == m.claim && row.state == claimed {
			row.handedOff, row.expires = window.Never, e.now
			e.ready.push(m)
			e.writes++
		}
	}
}
