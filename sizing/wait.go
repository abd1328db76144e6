package sizing

import "math"

// All in seconds, rows and rows a second. The wait of a backlog's last row does not
// depend on arrivals, which queue up behind it; how long the lane has a backlog does.

// bare is the rule of thumb: what is ahead, over the drain.
func (m *model) bare() float64 { return m.ahead / m.drain }

// noise is by how much a backlog may take longer than on average, at the confidence.
func (m *model) noise() float64 { return max(0, m.z) * m.cv * math.Sqrt(m.ahead) / m.low }

// steady is the wait, at the confidence, that arrivals make without any backlog: the
// exponential tail of a queue with many servers, which begins at Erlang's C.
func (m *model) steady() float64 {
	if m.arrivals == 0 {
		return 0
	}
	busy := m.arrivals / m.low
	some := erlangC(m.workers, busy*float64(m.workers))
	if m.clumping > 1 {
		some = max(some, busy)
	}
	if some <= 1-m.confidence {
		return 0
	}
	decay := 2 * (m.low - m.arrivals) / (m.clumping + m.cv*m.cv)
	wait := math.Log(some/(1-m.confidence)) / decay
	if busy > 0.9 {
		wait *= 1.1 // the formula runs a tenth short there
	}
	return wait
}

// wait is how long the last row may wait for a worker, at the confidence.
func (m *model) wait() float64 { return m.ahead/m.low + m.noise() + m.steady() + m.overhead }

// holds is how many rows ahead a lease outlasts: wait solved for ahead.
func (m *model) holds(lease float64) int {
	left := lease - m.steady() - m.overhead
	if !(left > 0) {
		return 0
	}
	spread := max(0, m.z) * m.cv
	// The positive root of x²+spread·x = low·left for x = √ahead, in the form in which
	// nothing cancels.
	x := 2 * m.low * left / (spread + math.Sqrt(spread*spread+4*m.low*left))
	return int(min(math.Floor(x*x*(1+1e-12)), 1e15))
}

// withWorkers is the same lane with more or fewer workers.
func (m *model) withWorkers(workers int) *model {
	other, by := *m, float64(workers)/float64(m.workers)
	other.workers, other.drain, other.low = workers, m.drain*by, m.low*by
	return &other
}

// mostWorkers is the most that is worth saying.
const mostWorkers = 1 << 30

// workersFor is the fewest workers with which the wait is inside a lease. ok is false
// where no number of workers does it: the relay alone takes longer.
func (m *model) workersFor(lease float64) (workers int, ok bool) {
	inside := func(workers int) bool {
		other := m.withWorkers(workers)
		return other.arrivals < other.low && other.wait() <= lease
	}
	enough := 1
	for !inside(enough) {
		if enough *= 2; enough > mostWorkers {
			return 0, false
		}
	}
	few := enough / 2 // too few, or none
	for enough-few > 1 {
		if middle := few + (enough-few)/2; inside(middle) {
			enough = middle
		} else {
			few = middle
		}
	}
	return enough, true
}
