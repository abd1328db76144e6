package sizing

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill/sizing/window"
)

// state is where a row is.
type state uint8

const (
	owed    state = iota // due, or not yet
	claimed              // a message may be in the queue
	running              // a worker took it
	lost                 // a worker took it and died
	settled
)

// row is a delivery. claim is its fencing token: a message that carries another one
// is stale.
type row struct {
	claim     uint32
	state     state
	hit       bool // by a fault
	handedOff time.Duration
	expires   time.Duration
}

// message is what the queue holds, and how anything else remembers a claim.
type message struct {
	row   int32
	claim uint32
}

// Kinds of events, in the order in which those of one moment happen.
const (
	faultBegins = iota
	faultEnds
	relayPasses
	relaySends
	workerFree
)

type event struct {
	at    time.Duration
	turn  uint64 // events of one moment and kind happen as they were planned
	kind  uint8
	who   int32
	epoch uint32 // of a relay or worker that may have died since
}

func (e event) before(other event) bool {
	if e.at != other.at {
		return e.at < other.at
	}
	if e.kind != other.kind {
		return e.kind < other.kind
	}
	return e.turn < other.turn
}

// engine is a simulation as it goes.
type engine struct {
	*plan
	now    time.Duration
	events heap[event]
	turn   uint64

	rows     []row
	next     int // the first row that was never claimed
	out      int // rows that are neither owed nor settled
	queue    queue[message]
	frontier time.Duration // the newest hand-off that was taken
	takenAt  time.Duration // the newest take

	waiting queue[message] // hand-offs that may not have been taken, oldest first
	dead    heap[orphan]   // rows whose worker died, by the end of their lease
	ready   heap[message]  // lapsed rows that may be claimed again, in their old order

	nodes      []relay
	slots      []worker
	idle       []int32
	runs       runs
	slowdown   float64
	brokerDown bool

	counts    Result
	writes    int
	faultAt   time.Duration
	progress  time.Duration // when a row was last taken
	fruitless int           // stale copies since
	busy      int           // workers that run a row

	watch func(claim) // for tests, and what the rows of a claim were before it
	were  []row
}

// claim is what a test sees of one; without rows, of a look.
type claim struct {
	relay    *relay
	decision window.Decision
	waiting  int
	rows     []message
	were     []row
	probe    bool
}

// orphan is a row whose worker died.
type orphan struct {
	message
	expires time.Duration
}

func newEngine(p *plan) *engine {
	e := &engine{
		plan: p, rows: make([]row, p.atOnce+len(p.arrivals)), frontier: window.Never,
		runs: newRuns(p.seed, p.service, p.cv), slowdown: 1,
		nodes: make([]relay, p.relays), slots: make([]worker, p.workers),
	}
	e.events.less = event.before
	e.dead.less = func(a, b orphan) bool { return a.expires < b.expires }
	e.ready.less = func(a, b message) bool { return a.row < b.row }
	for i := range e.nodes {
		e.startRelay(i, p.poll*time.Duration(i)/time.Duration(p.relays))
	}
	for i := range e.slots {
		// Runs that are all the same would go on in step for ever: they are spread out.
		var at time.Duration
		if p.cv == 0 {
			at = time.Duration(p.service * 1e9 * float64(i) / float64(p.workers))
		}
		e.slots[i].row.row = nothing
		e.at(at, workerFree, i, 0)
	}
	for i, f := range p.faults {
		e.at(f.from, faultBegins, i, 0)
		e.at(f.to, faultEnds, i, 0)
	}
	return e
}

// at plans an event.
func (e *engine) at(at time.Duration, kind uint8, who int, epoch uint32) {
	e.turn++
	e.events.push(event{at: at, turn: e.turn, kind: kind, who: int32(who), epoch: epoch})
}

// run goes from event to event.
func (e *engine) run() {
	for e.counts.Settled < len(e.rows) && e.events.len() > 0 {
		next := e.events.pop()
		if next.at > longest {
			e.counts.Stopped = "after a hundred years"
			return
		}
		if e.counts.Events++; e.counts.Events > e.maxEvents {
			e.counts.Stopped = fmt.Sprintf("after %d events", e.maxEvents)
			return
		}
		e.now = next.at
		switch next.kind {
		case faultBegins:
			e.beginFault(e.faults[next.who])
		case faultEnds:
			e.endFault(e.faults[next.who])
		case relayPasses:
			if r := &e.nodes[next.who]; r.epoch == next.epoch {
				e.pass(r)
			}
		case relaySends:
			if r := &e.nodes[next.who]; r.epoch == next.epoch {
				e.sendNext(r)
			}
		case workerFree:
			if w := &e.slots[next.who]; w.epoch == next.epoch {
				e.free(int(next.who))
			}
		}
		if e.collapsed() {
			e.counts.Stopped = fmt.Sprintf("collapsed: %d rows are left, and in three leases workers reached %d messages, every one stale",
				len(e.rows)-e.counts.Settled, e.fruitless)
			return
		}
	}
}

// collapsed reports whether the queue will never get done: nothing runs, nothing was
// taken for three leases, and all that the workers reached was stale. What stands in
// the queue has then lapsed more than once, and nothing will change that.
func (e *engine) collapsed() bool {
	return e.fruitless > 0 && e.busy == 0 && e.now-e.progress > 3*e.held
}

// result sums up.
func (e *engine) result() Result {
	r := e.counts
	r.Scenario, r.Window, r.Rows, r.Inputs, r.Warnings = e.scenario, e.mode, len(e.rows), e.inputs, []string{}
	r.Converges = r.Settled == r.Rows
	if r.Rows > 0 {
		r.WritesPerRow = float64(e.writes) / float64(r.Rows)
		r.Finish = Seconds(e.now)
	}
	if !r.Converges {
		r.Warnings = append(r.Warnings, "does not converge, stopped "+r.Stopped)
	}
	return r
}

// dueAt is when a row arrives: the burst at once, then one by one.
func (e *engine) dueAt(row int) time.Duration {
	if row < e.atOnce {
		return 0
	}
	return e.arrivals[row-e.atOnce]
}
