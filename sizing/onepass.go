package sizing

import "math"

const (
	// passRows is up to how many rows are gone through one by one. More are gone
	// through by so many at a time: what becomes of a burst does not depend on how
	// large a row is.
	passRows = 200_000
	// passLimit is how many messages a row may take before that counts as never.
	passLimit = 100
)

// sent is a message of one pass.
type sent struct {
	at    float64
	stale bool // its row has been claimed again
}

// onePass goes through the messages in the order of the queue, with the moment at
// which the workers reach each, and the moment up to which the relays have sent. It
// takes time and memory by the rows and their stale copies.
func (b Burst) onePass() (stale, finish float64, converges bool) {
	scale := math.Max(1, math.Ceil(float64(b.Rows)/passRows))
	fresh := int(math.Round(float64(b.Rows) / scale)) // rows that were never sent
	run := scale / b.Drain                            // from one start to the next
	skip := run * b.StaleShare
	gap := 0.0
	if b.RelayRate > 0 {
		gap = scale / b.RelayRate
	}
	lease := b.held()

	var (
		queue       []sent
		head, relay float64 // when the workers are free, and the relays
		oldest      int     // the first message that was not looked at for a lapse
		limit       = passLimit*fresh + passLimit
		lastRun     float64
	)
	send := func() {
		queue = append(queue, sent{at: relay})
		relay += gap
	}
	for next := 0; next < len(queue) || fresh > 0; next++ {
		if next > passRows && next > len(queue)/2 { // what is done with is let go
			queue = append(queue[:0], queue[next:]...)
			oldest -= next
			limit -= next
			next = 0
		}
		// The relays send whatever they can until the workers reach this message, what
		// lapsed before what is new.
		for relay <= head || next >= len(queue) {
			oldest = max(oldest, next)
			if oldest < len(queue) && queue[oldest].at+lease <= relay {
				queue[oldest].stale = true
				oldest++
				send()
			} else if fresh > 0 {
				fresh--
				send()
			} else if oldest < len(queue) && queue[oldest].at+lease <= head {
				relay = max(relay, queue[oldest].at+lease)
			} else {
				break
			}
		}
		if queue[next].stale {
			stale++
			head += skip
		} else {
			head = max(head, queue[next].at) + run
			lastRun = head
		}
		// Nothing was run for three leases, so what stands in the queue has lapsed more
		// than once, and nothing will change that.
		if head-lastRun > 3*lease || next > limit {
			return stale * scale, 0, false
		}
	}
	return stale * scale, head, true
}
