package sizing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing/window"
)

const (
	defaultRows    = 28_000
	defaultDrain   = 20.0
	defaultWorkers = 20

	// mostRows is how many rows are simulated one by one.
	mostRows = 2_000_000
	// mostSlots bounds the workers and relays in the same way.
	mostSlots = 1_000_000

	defaultMaxEvents = 5_000_000
)

// plan is a Simulation with everything filled in and checked.
type plan struct {
	reader
	pool
	scenario Scenario
	mode     Window

	atOnce   int // that are due at once
	arrivals []time.Duration
	faults   []fault

	cv        float64
	staleCost time.Duration // a stale copy's cost
	share     float64       // the same as a share of a run
	lease     time.Duration
	held      time.Duration // the lease at the hand-off
	claimCost int           // writes of claim and extension

	relays   int
	poll     time.Duration
	batch    int
	sendTime time.Duration
	rules    window.Rules
	fresh    *window.Window // as a relay starts with it; nil without a window

	seed      uint64
	maxEvents int
}

// resolve reads a simulation. The error is a *Refusal.
func (s Simulation) resolve() (*plan, error) {
	if s.Scenario == "" {
		s.Scenario = ScenarioBurst
	}
	if err := s.Scenario.check(); err != nil {
		return nil, err
	}
	habit := s.Scenario.habit()
	if s.Window == "" {
		s.Window = habit.window
	}
	if s.Window != WindowOff && s.Window != WindowAuto {
		return nil, refuse(ErrInvalid, "give off or auto", "window is %q", string(s.Window))
	}
	p := &plan{scenario: s.Scenario, mode: s.Window, seed: s.Seed, maxEvents: s.MaxEvents}
	if p.maxEvents == 0 {
		p.maxEvents = defaultMaxEvents
	} else if p.maxEvents < 0 {
		return nil, refuse(ErrInvalid, "give a number of events", "most events is %d", p.maxEvents)
	}
	r := &p.reader
	p.readWorkers(s, habit)
	p.lease = read(r, "lease_seconds", s.Lease, positive, habit.lease, "")
	standard := read(r, "standard_lease_seconds", s.StandardLease, positive, waybill.DefaultLease, "")
	p.relays = read(r, "relays", s.Relays, fromOne, habit.relays, "")
	p.poll = read(r, "poll_seconds", s.Poll, positive, DefaultPoll, "")
	p.batch = read(r, "batch_rows", s.Batch, fromOne, DefaultBatch, "")
	p.sendTime = read(r, "send_seconds", s.Send, anything, habit.send, "")
	if p.err == nil {
		p.err = p.readRules(s)
	}
	p.readStale(s)
	if p.err == nil {
		p.err = p.readRows(s, habit)
	}
	if p.err == nil {
		p.readFaults(s, habit)
	}
	if p.err == nil {
		p.held, p.claimCost = handOff(standard, p.lease)
		p.err = p.check()
	}
	return p, p.err
}

// readWorkers reads the workers. A simulation has to know what one run takes, so the
// three figures may not contradict each other.
func (p *plan) readWorkers(s Simulation, habit habit) {
	if s.Drain.Given() && s.Drain.Value == 0 {
		p.err = refuse(ErrNoDrain, "start workers", "drain is 0")
		return
	}
	p.pool = p.readPool(s.Workers, s.Drain, s.Service, pool{workers: defaultWorkers, drain: defaultDrain})
	p.cv = read(&p.reader, "cv", s.CV, anything, habit.cv, "")
	if p.err != nil {
		return
	}
	if does := float64(p.workers) / p.service; math.Abs(does-p.drain) > 0.01*p.drain {
		p.err = refuse(ErrConflict, "leave one of them out", "%d workers with runs of %ss do %s rows a second, and the drain is %s/s",
			p.workers, decimal(p.service), decimal(does), decimal(p.drain))
	} else if p.service > longest.Seconds() {
		p.err = refuse(ErrTooLong, "give more drain", "a run takes %ss", decimal(p.service))
	}
}

func (p *plan) readStale(s Simulation) {
	switch {
	case s.StaleCost.Given() && s.StaleShare.Given() && p.err == nil:
		p.err = refuse(ErrConflict, "give one of them", "a stale copy costs %s, and %s of a run", s.StaleCost.Value, decimal(s.StaleShare.Value))
	case s.StaleShare.Given():
		p.share = read(&p.reader, "stale_share", s.StaleShare, anything, 0, "")
		p.staleCost = time.Duration(math.Round(min(p.share*p.service, longest.Seconds()) * 1e9))
	default:
		p.staleCost = read(&p.reader, "stale_cost_seconds", s.StaleCost, anything, DefaultStaleCost, "")
		p.share = p.staleCost.Seconds() / p.service
	}
}

func (p *plan) readRules(s Simulation) error {
	p.rules = window.Rules{Lease: p.lease, Poll: p.poll}
	// A row must not count as overtaken by what was sent with it.
	p.rules.Margin = max(window.DefaultMargin, time.Duration(min(int64(p.batch), mostRows))*min(p.sendTime, time.Minute))
	if s.Target.Given() {
		p.rules.Target = s.Target.Value
	}
	if p.mode == WindowOff {
		return nil
	}
	var err error
	if p.fresh, err = window.New(p.rules); err != nil {
		return refuse(ErrInvalid, "lower the horizon, or leave it out", "%v", err)
	}
	p.rules = p.fresh.Rules()
	read(&p.reader, "target_seconds", s.Target, positive, p.rules.Target, "")
	return p.err
}

// readRows finds out when rows arrive.
func (p *plan) readRows(s Simulation, habit habit) error {
	if s.Replay != nil {
		return p.readReplay(s)
	}
	rows := read(&p.reader, "rows", s.Rows, anything, defaultRows, "")
	rate := read(&p.reader, "arrivals_per_second", s.Arrivals, anything, habit.arrivals*p.drain, "")
	if p.err != nil {
		return p.err
	}
	if float64(rows)+rate/p.drain*float64(rows) > mostRows {
		return refuse(ErrTooLarge, fmt.Sprintf("simulate %d at most, at a smaller drain, or use Predict", mostRows), "rows are %d", rows)
	}
	if s.Scenario == ScenarioSteady && rate == 0 {
		return refuse(ErrInvalid, "give rows a second", "arrivals are 0, and all rows of the scenario steady arrive")
	}
	if rate >= p.drain {
		return refuse(ErrArrivals, "give fewer arrivals or more drain",
			"arrivals of %s/s are not below the drain of %s/s: the queue grows without end", decimal(rate), decimal(p.drain))
	}
	arriving := rows
	if s.Scenario != ScenarioSteady {
		p.atOnce = rows
		arriving = int(rate / p.drain * float64(rows))
	}
	if rate > 0 && float64(arriving)/rate > longest.Seconds() {
		return refuse(ErrTooLong, "give more arrivals", "%d arrivals at %s/s take more than a hundred years", arriving, decimal(rate))
	}
	if rate > 0 {
		p.arrivals = poisson(s.Seed, rate, arriving)
	}
	return nil
}

func (p *plan) readReplay(s Simulation) error {
	if s.Rows.Given() || s.Arrivals.Given() {
		return refuse(ErrConflict, "leave rows and arrivals out", "arrivals are replayed, and rows or arrivals are given too")
	}
	if len(s.Replay) > mostRows {
		return refuse(ErrTooLarge, fmt.Sprintf("replay %d at most", mostRows), "%d arrivals are replayed", len(s.Replay))
	}
	p.arrivals = slices.Clone(s.Replay)
	slices.Sort(p.arrivals)
	if n := len(p.arrivals); n > 0 && (p.arrivals[0] < 0 || p.arrivals[n-1] > longest) {
		return refuse(ErrInvalid, "give times since the beginning", "arrivals are replayed from %s to %s", p.arrivals[0], p.arrivals[n-1])
	}
	read(&p.reader, "replayed_rows", Typed(len(s.Replay)), anything, 0, "")
	return p.err
}

func (p *plan) readFaults(s Simulation, habit habit) {
	switch s.Scenario {
	case ScenarioWorkersDown, ScenarioSlow, ScenarioBrokerLoss, ScenarioRelayLoss:
	default:
		return
	}
	r := &p.reader
	f := fault{kind: s.Scenario, slowdown: 1}
	f.from = read(r, "fault_at_seconds", s.FaultAt, anything, habit.faultAt, "")
	lasts := positive
	if s.Scenario == ScenarioBrokerLoss {
		lasts = anything
	}
	f.to = f.from + read(r, "fault_for_seconds", s.FaultFor, lasts, habit.faultFor, "")
	if s.Scenario == ScenarioSlow {
		f.slowdown = read(r, "slowdown", s.Slowdown, fromOne, habit.slowdown, "")
	} else {
		f.share = read(r, "fault_share", s.FaultShare, wholeOrShare, 1, "")
	}
	p.faults = []fault{f}
}

// check refuses what would not end, or would be about something else.
func (p *plan) check() error {
	for _, bound := range []struct {
		name        string
		value, most int
	}{{"workers", p.workers, mostSlots}, {"relays", p.relays, 1000}, {"batch", p.batch, mostRows}} {
		if bound.value > bound.most {
			return refuse(ErrTooLarge, fmt.Sprintf("simulate %d at most", bound.most), "%s is %d", bound.name, bound.value)
		}
	}
	if p.service > p.lease.Seconds() {
		return refuse(ErrRunTooLong, "raise the lease above the longest run",
			"a run takes %ss on average and its lease is %s", decimal(p.service), p.lease)
	}
	return nil
}

// predictable reports whether Predict is about the same.
func (p *plan) predictable() bool {
	return p.mode == WindowOff && p.atOnce > 0 && len(p.arrivals) == 0 && len(p.faults) == 0
}

func (p *plan) burst() Burst {
	b := Burst{Rows: p.atOnce, Drain: p.drain, Lease: p.held, StaleShare: p.share}
	if p.sendTime > 0 {
		b.RelayRate = float64(p.relays) / p.sendTime.Seconds()
		b.Poll = p.poll / time.Duration(p.relays)
	}
	return b
}
