package sizing

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// Answer says what lease a lane needs, and what the lease that it has is good for.
type Answer struct {
	// MinLease is the rule of thumb, ahead ÷ drain: below it the last row lapses even
	// if everything goes evenly.
	MinLease Seconds `json:"min_lease_seconds"`
	// Wait is how long the last row waits for a worker, at the confidence.
	Wait       Seconds `json:"wait_seconds"`
	Confidence float64 `json:"confidence"`
	// Lease is Wait, rounded up: the lease to declare.
	Lease Seconds `json:"lease_seconds"`

	// Judged is the lease that all below is about: the one that was given, else Lease.
	Judged Seconds `json:"judged_lease_seconds"`
	// MaxBacklog is how many rows may be ahead under it, at the confidence.
	MaxBacklog int `json:"max_backlog"`
	// WorkersNeeded is the fewest workers with which the backlog fits it. 0 is not
	// known, or that no number does it; a warning says which.
	WorkersNeeded int `json:"workers_needed"`
	Batch
	// StaleCopies, Converges and CollapseBacklog are the Prediction for the drain as
	// given. StaleAtLowDrain is the same for the drain that can be counted on.
	StaleCopies     int  `json:"stale_copies"`
	StaleAtLowDrain int  `json:"stale_copies_at_low_drain"`
	Converges       bool `json:"converges"`
	CollapseBacklog int  `json:"collapse_backlog"`
	Cost            Cost `json:"cost"`

	Inputs   Inputs   `json:"inputs"`
	Warnings []string `json:"warnings"`
}

// Size answers how long the lease of a lane has to be. The error is a *Refusal.
func Size(load Load) (Answer, error) {
	m, err := load.resolve()
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Confidence: m.confidence, Inputs: m.inputs, Warnings: []string{}}
	lease := roundLease(m.wait())
	for _, s := range []struct {
		to      *Seconds
		seconds float64
	}{{&a.MinLease, m.bare()}, {&a.Wait, m.wait()}, {&a.Lease, lease}} {
		if *s.to, err = secondsOf(s.seconds); err != nil {
			return Answer{}, err
		}
	}
	if a.Judged = a.Lease; m.lease > 0 {
		a.Judged = Seconds(m.lease)
		if m.service > m.lease.Seconds() && !m.heartbeat {
			return Answer{}, refuse(ErrRunTooLong, "raise the lease above the longest run, or have the receiver declare heartbeat",
				"a run takes %ss on average and its lease is %s", decimal(m.service), m.lease)
		}
	}
	a.MaxBacklog = m.holds(a.Judged.Duration().Seconds())
	a.WorkersNeeded = m.workersNeeded(&a)
	if a.Batch, err = Batches(a.Judged.Duration(), max(m.perRow, 1)); err != nil {
		return Answer{}, err
	}
	if err := m.predict(&a); err != nil {
		return Answer{}, err
	}
	a.Cost = costs(m.standard, a.Judged.Duration(), int(m.ahead), a.StaleCopies)
	m.warn(&a)
	return a, nil
}

func (m *model) workersNeeded(a *Answer) int {
	if !m.workersKnown {
		a.warn("workers are not known, so the workers that are needed are not either: give workers or service")
		return 0
	}
	workers, ok := m.workersFor(a.Judged.Duration().Seconds())
	if !ok {
		a.warn("no number of workers brings the wait below %s: poll and batch × send alone are %ss", a.Judged, decimal(m.overhead))
	}
	return workers
}

func (m *model) predict(a *Answer) error {
	burst := Burst{
		Rows: int(m.ahead), Drain: m.drain, Lease: a.Judged.Duration(),
		StaleShare: m.staleShare, RelayRate: m.relayRate,
	}
	p, err := Predict(burst)
	if err != nil {
		return err
	}
	a.StaleCopies, a.Converges, a.CollapseBacklog = p.StaleCopies, p.Converges, p.CollapseBacklog
	// A stale copy takes as long whatever the drain, so less of a slower run.
	burst.Drain, burst.StaleShare = m.low, m.staleShare*m.low/m.drain
	if p, err = Predict(burst); err != nil {
		return err
	}
	a.StaleAtLowDrain = p.StaleCopies
	if a.Converges && !p.Converges {
		a.warn("at the drain of %s/s that can be counted on this does not converge", decimal(m.low))
	}
	return nil
}

func (a *Answer) warn(text string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(text, args...))
}

// warn says what an operator should not have to find out.
func (m *model) warn(a *Answer) {
	judged := a.Judged.Duration()
	switch {
	case !a.Converges:
		a.warn("%d rows under %s do not converge: every copy lapses before it is reached; raise the lease to %s, or use the window",
			int(m.ahead), judged, a.Lease)
	case judged < a.MinLease.Duration():
		a.warn("a lease of %s lapses before the last of %d rows starts: about %d stale copies; raise it to %s, or use the window",
			judged, int(m.ahead), a.StaleCopies, a.Lease)
	case judged < a.Wait.Duration():
		a.warn("a lease of %s may lapse: the last row waits up to %s; raise it to %s, or use the window", judged, a.Wait.Duration().Round(time.Second), a.Lease)
	}
	if a.Converges && a.CollapseBacklog > 0 && m.ahead*2 > float64(a.CollapseBacklog) {
		a.warn("from %d rows on this queue never gets done under %s", a.CollapseBacklog, judged)
	}
	if m.lease == 0 && m.service > judged.Seconds() {
		a.warn("a run takes %ss on average: the receiver's lease has to cover that too, or it declares heartbeat", decimal(m.service))
	}
	if int64(m.batch) > a.InsideLease {
		a.warn("a batch of %d rows does not start inside the lease: %d do", m.batch, a.InsideLease)
	}
	if waybill.NeedsExtension(waybill.StampedLease(m.standard, []time.Duration{judged}), judged) {
		a.warn("a claim stamps at most %s: each row costs a fourth write, which gives it its %s at the hand-off", m.standard+m.standard/10, judged)
	}
	if m.arrivals > 0.9*m.low {
		a.warn("arrivals are %s%% of the drain that can be counted on: waits grow without bound from there", decimal(100*m.arrivals/m.low))
	}
}
