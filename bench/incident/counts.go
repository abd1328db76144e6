package main

import (
	"encoding/json"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// tellGap is how often a process says what it has done. What it does after that and
// before it is killed is not told of.
const tellGap = 20 * time.Millisecond

// counts are what a process has done so far, or several together.
type counts struct {
	// Of relays.
	Claimed   int
	HandedOff int
	Probes    int
	Stalls    int // how often a lane was found to stand still
	Window    waybill.Window

	// Of workers: stale copies, by why their rows refused them, and for how long those
	// kept slots.
	Refused     map[waybill.Refusal]int
	RefusedCost time.Duration
}

func (c counts) stale() (n int) {
	for _, some := range c.Refused {
		n += some
	}
	return n
}

// and adds up what two processes did.
func (c counts) and(other counts) counts {
	c.Claimed += other.Claimed
	c.HandedOff += other.HandedOff
	c.Probes += other.Probes
	c.Stalls += other.Stalls
	c.Window.Size += other.Window.Size
	c.Window.Waiting += other.Window.Waiting
	c.Window.Drain += other.Window.Drain
	c.Window.Stalled = c.Window.Stalled || other.Window.Stalled
	c.RefusedCost += other.RefusedCost
	refused := maps.Clone(c.Refused)
	for why, n := range other.Refused {
		if refused == nil {
			refused = map[waybill.Refusal]int{}
		}
		refused[why] += n
	}
	c.Refused = refused
	return c
}

// counter counts what is observed.
type counter struct {
	mu     sync.Mutex
	counts counts
}

func (c *counter) observe(seen waybill.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &c.counts
	switch seen.Kind {
	case waybill.ObservedClaim:
		n.Claimed += seen.Count
	case waybill.ObservedEnqueue:
		n.HandedOff += seen.Count
	case waybill.ObservedProbe:
		n.Probes += seen.Count
	case waybill.ObservedWindow:
		if seen.Window.Stalled && !n.Window.Stalled {
			n.Stalls++
		}
		n.Window = seen.Window
	case waybill.ObservedRefusal:
		if n.Refused == nil {
			n.Refused = map[waybill.Refusal]int{}
		}
		n.Refused[seen.Refusal]++
		n.RefusedCost += seen.Elapsed
	}
}

func (c *counter) snapshot() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts
	n.Refused = maps.Clone(n.Refused)
	return n
}

// tell writes the counts every so often, one line of JSON each, and a last time
// before end returns.
func (c *counter) tell(out io.Writer) (end func()) {
	encoder := json.NewEncoder(out)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tellGap)
		defer ticker.Stop()
		for {
			// Whoever does not read any more is gone, and ends this process.
			_ = encoder.Encode(c.snapshot())
			select {
			case <-ticker.C:
			case <-stop:
				_ = encoder.Encode(c.snapshot())
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
