package sizing

import (
	"math"
	"slices"
)

// beginFault is the moment at which something goes wrong.
func (e *engine) beginFault(f fault) {
	e.faultAt = e.now
	switch f.kind {
	case ScenarioWorkersDown:
		for id := range affected(f, len(e.slots)) {
			e.killWorker(id)
		}
	case ScenarioSlow:
		e.slowdown = f.slowdown
	case ScenarioBrokerLoss:
		e.loseMessages(f)
		e.brokerDown = f.to > f.from
	case ScenarioRelayLoss:
		for id := range affected(f, len(e.nodes)) {
			e.killRelay(id)
		}
	}
}

// endFault is the moment at which it is well again.
func (e *engine) endFault(f fault) {
	e.progress = e.now
	switch f.kind {
	case ScenarioWorkersDown:
		for id := range affected(f, len(e.slots)) {
			e.slots[id].down = false
			e.idle = append(e.idle, int32(id))
		}
	case ScenarioSlow:
		e.slowdown = 1
	case ScenarioBrokerLoss:
		e.brokerDown = false
	case ScenarioRelayLoss:
		for id := range affected(f, len(e.nodes)) {
			e.startRelay(id, e.now)
		}
	}
	e.serve()
}

// affected is how many of so many a fault is about, at least one.
func affected(f fault, of int) int { return min(of, int(math.Ceil(f.share*float64(of)))) }

// killWorker ends a worker in the middle of its run. Its row is held until the lease
// ends.
func (e *engine) killWorker(id int) {
	w := &e.slots[id]
	w.epoch++
	w.down = true
	if i := slices.Index(e.idle, int32(id)); i >= 0 {
		e.idle = slices.Delete(e.idle, i, i+1)
	}
	if w.row.row == nothing {
		return
	}
	row := &e.rows[w.row.row]
	row.state, row.expires = lost, e.heldUntil(w.taken)
	e.hit(row)
	e.busy--
	e.dead.push(orphan{message: w.row, expires: row.expires})
	w.row.row = nothing
}

// killRelay ends a relay between claim and hand-off: what it did not send waits for
// the end of its lease.
func (e *engine) killRelay(id int) {
	r := &e.nodes[id]
	r.epoch++
	for r.unsent.len() > 0 {
		e.hit(&e.rows[r.unsent.pop().row])
	}
}

// loseMessages has the queue lose what is in it.
func (e *engine) loseMessages(f fault) {
	random, kept := stream(e.seed, streamFaults), queue[message]{}
	for e.queue.len() > 0 {
		m := e.queue.pop()
		row := &e.rows[m.row]
		if random.Float64() >= f.share {
			kept.push(m)
		} else if row.claim == m.claim && row.state == claimed {
			e.hit(row)
		}
	}
	e.queue = kept
}

func (e *engine) hit(row *row) {
	if !row.hit {
		row.hit = true
		e.counts.Hit++
	}
}
