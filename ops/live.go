package ops

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// processTimeout bounds the asking of relays and workers, all at the same time.
const processTimeout = 5 * time.Second

// The last bounds of the histograms of waybill_queue_wait_seconds and
// waybill_lease_used_ratio: nobody knows how much more it was.
const (
	longestWait = 3600.0
	mostUsed    = 2.0
)

// Process is a relay or worker that can be asked for its metrics.
type Process struct {
	Admin string // its address, as the report names it
	// Metrics returns them in Prometheus's text format.
	Metrics func(ctx context.Context) ([]byte, error)
}

// Live is what only running processes know: relays of the windows that they keep, and
// workers of what their queues brought. It is of those that were asked, and counts
// from when each of them started. A figure that none of them tells is null.
type Live struct {
	Processes []AskedProcess `json:"processes"`
	// Lanes holds every declared lane and every other one that a process tells of, by
	// name.
	Lanes []LiveLane `json:"lanes"`
	// StaleCopies are the messages that rows refused, by lane and by why. It is null
	// if no worker was asked.
	StaleCopies []StaleCopies `json:"stale_copies"`
}

// AskedProcess is what a process is, or why it could not be asked.
type AskedProcess struct {
	Admin string `json:"admin"`
	// Relays are the lanes that the process has relays for.
	Relays []string `json:"relays"`
	Worker bool     `json:"worker"` // receivers run in it
	Error  *string  `json:"error"`  // null if it answered
}

// LiveLane is the part of one lane. What several relays tell is added up.
type LiveLane struct {
	Lane   string                 `json:"lane"`
	Owed   waybill.Reading[int64] `json:"owed"`   // by the rows; null if the lane is not declared
	Relays int                    `json:"relays"` // of the lane, among those asked
	// Window is how many rows may wait in the queue. It is null if its relays have no
	// window, or have not looked yet; the next three with it.
	Window  waybill.Reading[int64]   `json:"window"`
	Waiting waybill.Reading[int64]   `json:"window_waiting"`   // of those, rows that wait
	Drain   waybill.Reading[float64] `json:"drain_per_second"` // rows that workers settle; null as long as no relay knows
	Stalled waybill.Reading[bool]    `json:"stalled"`          // of one relay at least, rows wait and no worker takes any
	Probes  waybill.Reading[int64]   `json:"probes"`           // rows claimed while that was so, to see whether workers are there

	Takes waybill.Reading[int64] `json:"takes"` // rows that workers took
	// WaitP50 and WaitP99 are quantiles of the wait from the hand-off to the take,
	// from the buckets of a histogram: about right, and longestWait is that or more.
	WaitP50 waybill.Reading[float64] `json:"queue_wait_p50_seconds"`
	WaitP99 waybill.Reading[float64] `json:"queue_wait_p99_seconds"`
	// LeaseUsed is that wait as a share of the lease, which 99 of 100 takes keep
	// below; mostUsed is that or more. Headroom is what is left of the lease then, and
	// negative where it lapsed in the queue.
	LeaseUsed waybill.Reading[float64] `json:"lease_used_p99"`
	Headroom  waybill.Reading[float64] `json:"lease_headroom"`
}

// AskProcesses asks all at the same time, for 5 s at most. One that does not answer
// costs no more than its part.
func AskProcesses(ctx context.Context, processes []Process) *Live {
	ctx, cancel := context.WithTimeout(ctx, processTimeout)
	defer cancel()
	answers := make([]*told, len(processes))
	failures := make([]error, len(processes))
	var asking sync.WaitGroup
	for i, process := range processes {
		asking.Go(func() { answers[i], failures[i] = askProcess(ctx, process) })
	}
	asking.Wait()
	live := &Live{Processes: make([]AskedProcess, len(processes))}
	all := newTold()
	for i, process := range processes {
		asked := AskedProcess{Admin: process.Admin, Relays: []string{}}
		if failures[i] != nil {
			text := failures[i].Error()
			asked.Error = &text
		} else {
			asked.Relays, asked.Worker = slices.AppendSeq(asked.Relays, maps.Keys(answers[i].relays)), answers[i].worker
			slices.Sort(asked.Relays)
			all.add(answers[i])
		}
		live.Processes[i] = asked
	}
	for lane := range all.lanes() {
		live.Lanes = append(live.Lanes, all.lane(lane))
	}
	live.StaleCopies = all.staleCopies()
	return live
}

func askProcess(ctx context.Context, process Process) (*told, error) {
	text, err := process.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return readMetrics(text)
}

// SetLive adds what processes told, if any was asked, to the report, beside what its
// rows say.
func (r *Report) SetLive(live *Live) {
	if live == nil {
		return
	}
	owed := make(map[string]int64)
	for _, receiver := range r.Receivers {
		owed[receiver.Lane] += receiver.Owed
	}
	for _, declared := range r.Lanes {
		if !slices.ContainsFunc(live.Lanes, func(lane LiveLane) bool { return lane.Lane == declared.Lane }) {
			live.Lanes = append(live.Lanes, LiveLane{Lane: declared.Lane})
		}
		for i := range live.Lanes {
			if live.Lanes[i].Lane == declared.Lane {
				live.Lanes[i].Owed = waybill.Known(owed[declared.Lane])
			}
		}
	}
	slices.SortFunc(live.Lanes, func(a, b LiveLane) int { return cmp.Compare(a.Lane, b.Lane) })
	r.Live = live
}
