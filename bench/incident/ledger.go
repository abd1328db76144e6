package main

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing"
)

// ledger is what became of a burst.
type ledger struct {
	incident
	times
	Window bool `json:"window"`

	Drain  float64        `json:"drain"` // rows settled a second while the workers had work
	Ideal  sizing.Seconds `json:"ideal_seconds"`
	Finish sizing.Seconds `json:"finish_seconds"`

	DeepestQueue int            `json:"deepest_queue"`
	LongestWait  sizing.Seconds `json:"longest_wait_seconds"`
	MedianWait   sizing.Seconds `json:"median_wait_seconds"`

	Stale     int                     `json:"stale_copies"`
	Refused   map[waybill.Refusal]int `json:"refused"`
	StaleCost sizing.Seconds          `json:"stale_cost_seconds"` // for how long one kept a slot
	RelayRate float64                 `json:"relay_rate"`         // messages a second, until every row was sent once
	// Predicted is of a burst without a fault and a window, by the drain until the last
	// stale copy: what the workers did later decides nothing any more.
	Predicted     *sizing.Prediction `json:"predicted"`
	DecidingDrain float64            `json:"drain_until_last_stale_copy"`

	Writes   float64        `json:"writes_per_row"`
	Claims   float64        `json:"claims_per_row"`
	Repeated int            `json:"runs_begun_again"`
	Stalls   int            `json:"stalls"`
	Probes   int            `json:"probes"`
	FaultAt  sizing.Seconds `json:"fault_seconds"`    // when it came; 0: none did
	Recovery sizing.Seconds `json:"recovery_seconds"` // from when nothing was broken any more until rows were settled at nine tenths of the drain
	Samples  []sample       `json:"samples"`
}

// times are those of the incident.
type times struct {
	LeaseTime   sizing.Seconds `json:"lease_seconds"`
	RunTime     sizing.Seconds `json:"run_seconds"`
	OutageTime  sizing.Seconds `json:"outage_seconds"`
	PollTime    sizing.Seconds `json:"poll_seconds"`
	HorizonTime sizing.Seconds `json:"horizon_seconds"`
	MarginTime  sizing.Seconds `json:"margin_seconds"`
}

func (i incident) times() times {
	return times{
		LeaseTime: sizing.Seconds(i.Lease), RunTime: sizing.Seconds(i.service()), OutageTime: sizing.Seconds(i.Outage),
		PollTime: sizing.Seconds(i.Poll), HorizonTime: sizing.Seconds(i.Horizon), MarginTime: sizing.Seconds(i.Margin),
	}
}

// recovered is the share of the drain at which a lane is well again.
const recovered = 0.9

// account closes the books, when all processes have ended.
func (s *scene) account(ctx context.Context) (ledger, error) {
	books, err := s.books(ctx)
	if err != nil {
		return ledger{}, fmt.Errorf("close the books: %w", err)
	}
	if books.Rows != s.Rows || books.Succeeded != s.Rows {
		return ledger{}, fmt.Errorf("%d of %d rows succeeded in one attempt, out of %d that were fired", books.Succeeded, books.Rows, s.Rows)
	}
	writes, err := s.writes(ctx)
	if err != nil {
		return ledger{}, fmt.Errorf("count the writes: %w", err)
	}
	said, rows := s.counts(), float64(s.Rows)
	l := ledger{
		incident: s.incident, times: s.incident.times(), Window: s.window,
		Finish: sizing.Seconds(books.Last.Sub(books.First)), LongestWait: sizing.Seconds(books.Wait), MedianWait: sizing.Seconds(books.Typical),
		Stale: said.stale(), Refused: said.Refused,
		Writes: float64(writes) / rows, Claims: float64(said.Claimed) / rows, Repeated: books.Starts - s.Rows,
		Stalls: said.Stalls, Probes: said.Probes,
	}
	for _, at := range s.samples {
		at.Seconds = at.at.Sub(books.First).Seconds()
		l.Samples = append(l.Samples, at)
		l.DeepestQueue = max(l.DeepestQueue, at.Depth)
	}
	if l.Stale > 0 {
		l.StaleCost = sizing.Seconds(said.RefusedCost / time.Duration(l.Stale))
	}
	if !s.fault.IsZero() {
		l.FaultAt = sizing.Seconds(s.fault.Sub(books.First))
	}
	if l.Drain, l.DecidingDrain = drain(s.busy()), drain(s.deciding()); l.Drain == 0 || l.DecidingDrain == 0 {
		return l, fmt.Errorf("the workers never had work from one sample to the next: no drain was measured")
	}
	l.Ideal = sizing.Seconds(seconds(rows / l.Drain))
	if s.incident.Fault == faultWorkers {
		l.Ideal += sizing.Seconds(s.healed.Sub(s.fault))
	}
	l.RelayRate = s.relayRate(books.First)
	l.Recovery = sizing.Seconds(s.recovery(l.Drain))
	if !s.window && s.incident.Fault == faultNone {
		predicted, err := sizing.Predict(sizing.Burst{
			Rows: s.Rows, Drain: l.DecidingDrain, Lease: s.Lease, RelayRate: l.RelayRate, Poll: s.Poll,
			StaleShare: l.staleShare(),
		})
		if err != nil {
			return l, err
		}
		l.Predicted = &predicted
	}
	return l, nil
}

// staleShare is what a stale copy costs as a share of what a row does.
func (l ledger) staleShare() float64 {
	return l.StaleCost.Duration().Seconds() * l.Drain / float64(l.Slots)
}

// stretch is the time between two samples.
type stretch struct{ from, to sample }

// drain is the rows that were settled a second; 0 is unknown.
func drain(stretches []stretch) float64 {
	var rows int
	var took time.Duration
	for _, s := range stretches {
		rows, took = rows+s.to.Settled-s.from.Settled, took+s.to.at.Sub(s.from.at)
	}
	if rows == 0 {
		return 0
	}
	return float64(rows) / took.Seconds()
}

// busy is when the workers had nothing but work: messages waited from one sample to the
// next, none of them was stale, and nothing was broken.
func (s *scene) busy() (all []stretch) {
	for i := 1; i < len(s.samples); i++ {
		a, b := s.samples[i-1], s.samples[i]
		broken := !s.fault.IsZero() && !b.at.Before(s.fault) && (s.healed.IsZero() || a.at.Before(s.healed.Add(sampleGap)))
		if a.Depth > 0 && b.Depth > 0 && a.Stale == b.Stale && !broken {
			all = append(all, stretch{a, b})
		}
	}
	return all
}

// deciding is that until the last stale copy.
func (s *scene) deciding() []stretch {
	all := s.busy()
	stale := s.samples[len(s.samples)-1].Stale
	for i, stretch := range all {
		if stale > 0 && stretch.from.Stale == stale {
			return all[:i]
		}
	}
	return all
}

// relayRate is how many messages a second the relays sent until there were as many as
// rows. With a window that is the drain.
func (s *scene) relayRate(first time.Time) float64 {
	for _, at := range s.samples {
		if at.HandOff >= s.Rows {
			return float64(s.Rows) / at.at.Sub(first).Seconds()
		}
	}
	return 0
}

// recovery is how long it took, from when nothing was broken any more, until rows were
// settled for a second at nine tenths of the drain.
func (s *scene) recovery(drain float64) time.Duration {
	if s.fault.IsZero() || s.healed.IsZero() {
		return 0
	}
	for i, from := range s.samples {
		if from.at.Before(s.healed) {
			continue
		}
		for _, to := range s.samples[i:] {
			if gone := to.at.Sub(from.at); gone >= time.Second {
				if float64(to.Settled-from.Settled) >= recovered*drain*gone.Seconds() {
					return from.at.Sub(s.healed)
				}
				break
			}
		}
	}
	return 0
}

// bounds of what is promised of a burst of the report's size.
const (
	slack         = 0.05 // of the ideal, that a burst with a window may take longer
	predictorOff  = 0.10 // of what is predicted, that a burst without one may be off
	staleByFault  = 10
	deepestWindow = 1000
)

// misses says which of the promises a ledger does not keep.
func (l ledger) misses() (missed []string) {
	miss := func(format string, args ...any) { missed = append(missed, fmt.Sprintf(format, args...)) }
	if !l.Window {
		if l.Predicted == nil {
			return nil // nothing is promised of a fault without a window
		}
		if !l.Predicted.Converges {
			miss("it was predicted never to get done")
		} else if off := l.off(); off > predictorOff || off < -predictorOff {
			miss("%d stale copies where %d were predicted: %+.1f %%", l.Stale, l.Predicted.StaleCopies, 100*off)
		}
		return missed
	}
	allowed := 0
	if l.Fault != faultNone {
		allowed = staleByFault
	}
	if l.Stale > allowed {
		miss("%d stale copies, more than %d: %v", l.Stale, allowed, l.Refused)
	}
	if latest := l.latest(); l.Finish.Duration() > latest {
		miss("done after %s, later than %s", l.Finish.Duration().Round(time.Millisecond), latest.Round(time.Millisecond))
	}
	if l.DeepestQueue >= deepestWindow {
		miss("%d messages in the queue, not less than %d", l.DeepestQueue, deepestWindow)
	}
	return missed
}

// latest is when a burst with a window is to be done. What was lost with a queue, or
// with a relay that had claimed it and not sent it, waits for its lease.
func (l ledger) latest() time.Duration {
	latest := time.Duration((1 + slack) * float64(l.Ideal))
	if l.Fault == faultFlush || l.Fault == faultRelay {
		latest += l.Lease
	}
	return latest
}

// off is by what share there were more stale copies than predicted.
func (l ledger) off() float64 {
	return float64(l.Stale-l.Predicted.StaleCopies) / float64(max(l.Predicted.StaleCopies, 1))
}
