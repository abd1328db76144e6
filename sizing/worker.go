package sizing

import "time"

// nothing is the row of a worker that has none.
const nothing = -1

// worker is one slot.
type worker struct {
	epoch uint32
	down  bool
	row   message
	taken time.Duration
}

// enqueue puts a message into the queue.
func (e *engine) enqueue(m message) {
	e.queue.push(m)
	e.serve()
	e.counts.DeepestQueue = max(e.counts.DeepestQueue, e.queue.len())
}

// serve hands messages to idle workers.
func (e *engine) serve() {
	for len(e.idle) > 0 && e.queue.len() > 0 && !e.brokerDown {
		m, id := e.queue.pop(), e.idle[len(e.idle)-1]
		took := e.take(m, int(id))
		if took == 0 {
			continue // the worker is idle again
		}
		e.idle = e.idle[:len(e.idle)-1]
		e.at(e.now+took, workerFree, int(id), e.slots[id].epoch)
	}
}

// take takes a row if the message carries its claim, lapsed or not, and returns how
// long that keeps the worker.
func (e *engine) take(m message, id int) time.Duration {
	w, row := &e.slots[id], &e.rows[m.row]
	if row.claim != m.claim || row.state != claimed {
		e.counts.StaleCopies++
		e.fruitless++
		return e.staleCost
	}
	e.counts.LongestWait = max(e.counts.LongestWait, Seconds(e.now-row.handedOff))
	e.frontier = max(e.frontier, row.handedOff)
	e.takenAt, e.progress, e.fruitless = e.now, e.now, 0
	row.state, row.expires = running, e.now+e.lease
	w.row, w.taken = m, e.now
	e.busy++
	e.writes++
	return max(1, e.runs.next(e.slowdown))
}

// free settles what the worker ran, and has it look for more.
func (e *engine) free(id int) {
	w := &e.slots[id]
	if w.down {
		return
	}
	if w.row.row != nothing {
		row := &e.rows[w.row.row]
		row.state = settled
		e.out--
		e.busy--
		e.writes++
		e.counts.Settled++
		if row.hit {
			e.counts.Recovery = Seconds(e.now - e.faultAt)
		}
		e.progress, e.fruitless = e.now, 0
		w.row.row = nothing
	}
	e.idle = append(e.idle, int32(id))
	e.serve()
}
