package admin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// StepBound is longer than any step of a relay or a worker takes. The longest, a call
// to a database or a queue that does not answer, is given up after ten seconds; what
// lasts for so much longer hangs.
const StepBound = 2 * time.Minute

// Loops are the relays of a process, by lane, and when each last moved. A relay that
// waits out an outage goes round, and moves.
type Loops struct {
	mu    sync.Mutex
	loops map[string]*loop
}

type loop struct {
	moved time.Time
	bound time.Duration
}

// Add adds the relay of a lane, which has moved just now. With nothing to do it moves
// once in poll.
func (l *Loops) Add(lane string, poll time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loops == nil {
		l.loops = map[string]*loop{}
	}
	l.loops[lane] = &loop{moved: time.Now(), bound: StepBound + poll}
}

// Observe notes that a relay ended a pass, or did a part of one.
func (l *Loops) Observe(seen waybill.Observation) {
	switch seen.Kind {
	case waybill.ObservedPass, waybill.ObservedClaim, waybill.ObservedEnqueue, waybill.ObservedGiveBack:
	default:
		return // a worker's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if loop := l.loops[seen.Lane]; loop != nil {
		loop.moved = time.Now()
	}
}

// Live says which relays have not moved for longer than their poll and StepBound.
func (l *Loops) Live() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, lane := range slices.Sorted(maps.Keys(l.loops)) {
		if still := time.Since(l.loops[lane].moved); still > l.loops[lane].bound {
			errs = append(errs, fmt.Errorf("relay of lane %s: has not moved for %s", lane, still.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}
