package sizing

import (
	"math"
	"time"

	"github.com/waybill-go/waybill"
)

// Defaults of what is not said about a lane.
const (
	DefaultConfidence = 0.99
	DefaultCV         = 1.0
	DefaultPoll       = time.Second
	DefaultBatch      = 100
	DefaultSend       = time.Millisecond
	DefaultStaleCost  = 5 * time.Millisecond
)

// fewestSamples is how many settled rows a measured drain needs behind it.
const fewestSamples = 30

// typedShare is how much of a drain that nobody measured is counted on.
const typedShare = 0.9

// Load describes a lane and the workers behind it. The backlog, and the drain or both
// Workers and Service, are required; anything else has a default.
type Load struct {
	// Ahead is how many rows are ahead of the last one: the burst to be ready for, or
	// what is in the queue and due right now.
	Ahead Figure[int]

	// Drain is how many rows a second the workers settle while they have work.
	// Defaults to Workers ÷ Service. A live drain has to be measured while the queue
	// never ran empty: otherwise it is the rate of arrivals.
	Drain Figure[float64]
	// Samples is how many settled rows a live drain was measured on. A live drain
	// needs at least 30; nine tenths of a typed one are counted on.
	Samples Figure[int]
	// Workers is how many runs go on at once in all worker processes together.
	Workers Figure[int]
	// Service is how long a run takes on average.
	Service Figure[time.Duration]
	// CV is the standard deviation of a run's time over its average. Defaults to 1.
	CV Figure[float64]

	// Arrivals is how many rows a second arrive all the time, besides Ahead.
	// Defaults to none.
	Arrivals Figure[float64]
	// Dispersion is how much arrivals clump: 1, the default, is one at a time, and
	// batches of 50 are 50.
	Dispersion Figure[float64]

	// Confidence is the share of such backlogs whose last row starts in time.
	// Defaults to 0.99.
	Confidence Figure[float64]

	// Poll, Batch and Send are the relay's: the time between its passes (1s), the
	// rows of one claim (100), and the time to send one message (1ms).
	Poll  Figure[time.Duration]
	Batch Figure[int]
	Send  Figure[time.Duration]
	// PerRow is how long the relay is busy with one row: Send, unless it runs the
	// receivers of this lane itself.
	PerRow Figure[time.Duration]

	// StaleCost is how long a worker is busy with a stale copy. Defaults to 5ms.
	StaleCost Figure[time.Duration]
	// StaleShare is the same as a share of a run, instead: 1 is a full slot, where a
	// rate limit makes a worker spend one on every message.
	StaleShare Figure[float64]
	// RelayRate is how many messages a second all relays together send. The default,
	// 0, is no limit, which makes for the most stale copies.
	RelayRate Figure[float64]

	// Lease is the lease that the lane's receivers have, to be judged. By default the
	// lease that is recommended is.
	Lease Figure[time.Duration]
	// StandardLease is the most that a claim stamps, but for a tenth. Defaults to 5m.
	StandardLease Figure[time.Duration]
	// Heartbeat says that the receiver has its lease extended while it runs, so that a
	// run may be longer than the lease.
	Heartbeat bool
}

// model is a Load in plain numbers: rows, seconds, and rows a second.
type model struct {
	reader
	pool

	ahead              float64
	low                float64 // what is counted on of the drain
	workersKnown       bool
	cv                 float64
	arrivals, clumping float64
	confidence, z      float64
	overhead           float64 // poll + a batch's sending
	perRow             time.Duration
	batch              int
	staleShare         float64
	relayRate          float64
	lease              time.Duration // 0: whatever is recommended
	standard           time.Duration
	heartbeat          bool
}

// resolve reads a load. The error is a *Refusal.
func (l Load) resolve() (*model, error) {
	m := &model{heartbeat: l.Heartbeat}
	r := &m.reader
	if !l.Ahead.Given() {
		return nil, refuse(ErrMissing, "give the largest backlog that you expect, or the live one", "ahead is missing")
	}
	m.ahead = float64(read(r, "ahead_rows", l.Ahead, anything, 0, ""))
	m.readDrain(l)
	m.cv = read(r, "cv", l.CV, anything, DefaultCV, "")
	m.arrivals = read(r, "arrivals_per_second", l.Arrivals, anything, 0, "")
	m.clumping = read(r, "dispersion", l.Dispersion, fromOne, 1, "")
	m.confidence = read(r, "confidence", l.Confidence, share, DefaultConfidence, "")
	poll := read(r, "poll_seconds", l.Poll, anything, DefaultPoll, "")
	m.batch = read(r, "batch_rows", l.Batch, fromOne, DefaultBatch, "")
	send := read(r, "send_seconds", l.Send, anything, DefaultSend, "")
	m.perRow = read(r, "per_row_seconds", l.PerRow, anything, send, "sending it")
	m.overhead = poll.Seconds() + float64(m.batch)*send.Seconds()
	m.readStale(l.StaleCost, l.StaleShare)
	m.relayRate = read(r, "relay_rate_per_second", l.RelayRate, anything, 0, "no limit")
	m.standard = read(r, "standard_lease_seconds", l.StandardLease, positive, waybill.DefaultLease, "")
	if l.Lease.Given() {
		m.lease = read(r, "lease_seconds", l.Lease, positive, 0, "")
	}
	if m.err != nil {
		return nil, m.err
	}
	m.z = normalQuantile(m.confidence)
	if err := m.countOn(l); err != nil {
		return nil, err
	}
	return m, nil
}

// readDrain reads the workers and refuses to go on without a drain.
func (m *model) readDrain(l Load) {
	switch {
	case l.Drain.Given() && l.Drain.Value == 0:
		m.err = refuse(ErrNoDrain, "workers are down or do not read this queue: start them, no lease outlasts that",
			"drain is 0 with %d rows ahead", l.Ahead.Value)
	case !l.Drain.Given() && !(l.Workers.Given() && l.Service.Given()):
		m.err = refuse(ErrMissing, "give the drain, or both workers and service", "drain is missing")
	default:
		m.workersKnown = l.Workers.Given() || l.Service.Given()
		m.pool = m.readPool(l.Workers, l.Drain, l.Service, pool{workers: 1})
	}
}

// readStale finds out what a stale copy costs, as a share of a run.
func (m *model) readStale(cost Figure[time.Duration], shareOfRun Figure[float64]) {
	if cost.Given() && shareOfRun.Given() && m.err == nil {
		m.err = refuse(ErrConflict, "give one of them", "a stale copy costs %s, and %s of a run", cost.Value, decimal(shareOfRun.Value))
	}
	slot := float64(m.workers) / m.drain // a worker's time for a row, at the drain that counts
	if shareOfRun.Given() {
		m.staleShare = read(&m.reader, "stale_share", shareOfRun, anything, 0, "")
		return
	}
	m.staleShare = read(&m.reader, "stale_cost_seconds", cost, anything, DefaultStaleCost, "").Seconds() / slot
}

// countOn finds out how much of the drain can be counted on, and refuses where none
// can, or where arrivals eat it up.
func (m *model) countOn(l Load) error {
	low := typedShare
	if l.Samples.Given() || l.Drain.Source == FromLive {
		samples := read(&m.reader, "samples", l.Samples, anything, 0, "")
		if m.err != nil {
			return m.err
		}
		if samples < fewestSamples {
			return refuse(ErrFewSamples,
				"measure for longer, or type the drain: nine tenths of a typed one are counted on",
				"%d settled rows are behind the drain of %s/s, and it needs %d", samples, decimal(m.drain), fewestSamples)
		}
		low = max(0.5, 1-m.z*max(m.cv, 1)/math.Sqrt(float64(samples)))
	}
	m.low = m.drain * min(low, 1)
	if m.arrivals >= m.low {
		needed := math.Floor(m.arrivals/m.low*float64(m.workers)) + 1
		problem := "arrivals of %s/s are not below the drain of %s/s: the queue grows without end"
		if m.arrivals < m.drain {
			problem = "arrivals of %s/s are not below the %s/s that can be counted on: the queue may grow without end"
		}
		hint := "no lease is long enough: give more drain"
		if m.workersKnown {
			hint = "no lease is long enough: give at least " + decimal(needed) + " workers"
		}
		limit := m.low
		if m.arrivals >= m.drain {
			limit = m.drain
		}
		return refuse(ErrArrivals, hint, problem, decimal(m.arrivals), decimal(limit))
	}
	return nil
}
