package sizing

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill/sizing/window"
)

// lanes draws a lane with a window, of any speed, and a fault in the middle of it.
func lanes(t *rapid.T) Simulation {
	s := Simulation{
		Scenario:  rapid.SampledFrom(scenarios).Draw(t, "scenario"),
		Window:    WindowAuto,
		Workers:   Typed(rapid.IntRange(1, 60).Draw(t, "workers")),
		Service:   Typed(time.Duration(rapid.IntRange(20, 20_000).Draw(t, "service in ms")) * time.Millisecond),
		CV:        Typed(rapid.SampledFrom([]float64{0, 0.5, 1, 2}).Draw(t, "cv")),
		Lease:     Typed(time.Duration(rapid.IntRange(30, 300).Draw(t, "lease")) * time.Second),
		Relays:    Typed(rapid.IntRange(1, 4).Draw(t, "relays")),
		Poll:      Typed(time.Duration(rapid.IntRange(250, 2000).Draw(t, "poll in ms")) * time.Millisecond),
		StaleCost: Typed(10 * time.Millisecond),
		Seed:      rapid.Uint64Range(0, 1000).Draw(t, "seed"),
	}
	drain := float64(s.Workers.Value) / s.Service.Value.Seconds()
	s.Rows = Typed(min(rapid.IntRange(10, 1000).Draw(t, "rows"), int(drain*2000)+1))
	s.FaultAt = Typed(span(rapid.Float64Range(0, 1).Draw(t, "fault at") * float64(s.Rows.Value) / drain))
	s.FaultFor = Typed(time.Duration(rapid.IntRange(1, 400).Draw(t, "fault for")) * time.Second)
	s.FaultShare = Typed(rapid.Float64Range(0.1, 1).Draw(t, "fault share"))
	if s.Scenario == ScenarioBrokerLoss && rapid.Bool().Draw(t, "at once") {
		s.FaultFor = Typed(time.Duration(0))
	}
	return s
}

// watched runs a simulation and shows each look and claim.
func watched(t *rapid.T, s Simulation, watch func(e *engine, c claim)) (*engine, Result) {
	p, err := s.resolve()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(p)
	e.watch = func(c claim) { watch(e, c) }
	e.run()
	return e, e.result()
}

// What holds for every lane under every fault:
//
//	W1 what waits fits the window, right after a claim
//	W4 every row is settled in the end, and stale copies are few
//	W5 a claim takes only what might be taken without a window: due rows and lapsed
//	   ones; and of the lapsed only what the frontier lets go, or a probe
//	W6 a row is written by claim, take and acknowledgement, and by nothing else
func TestWindowInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := lanes(t)
		claims := 0
		since := map[*relay]int{} // claimed since the last look
		waiting := map[*relay]int{}
		e, r := watched(t, s, func(e *engine, c claim) {
			if c.rows == nil {
				since[c.relay], waiting[c.relay] = 0, c.waiting
				return
			}
			claims += len(c.rows)
			if since[c.relay] += len(c.rows); !c.probe && waiting[c.relay]+since[c.relay] > c.decision.Size {
				t.Fatalf("W1: %d rows wait and %d are claimed, and the window is %d", waiting[c.relay], since[c.relay], c.decision.Size)
			}
			for i, was := range c.were {
				id := int(c.rows[i].row)
				lapsed := (was.state == claimed || was.state == lost) && was.expires <= e.now
				if due := was.state == owed && e.dueAt(id) <= e.now; !due && !lapsed {
					t.Fatalf("W5: at %s row %d was claimed in state %d, held until %s", e.now, id, was.state, was.expires)
				}
				old := window.Lapsed{HandedOff: was.handedOff, Taken: was.state == lost}
				if lapsed && !c.probe && !e.rules.Reclaim(e.now, e.frontier, old) {
					t.Fatalf("W5: at %s row %d was claimed again, handed off at %s, the frontier at %s", e.now, id, was.handedOff, e.frontier)
				}
			}
		})
		if !r.Converges {
			t.Fatalf("W4: %+v", r)
		}
		run := 5 * s.Service.Value // and a run that is long is like workers that are away
		if s.Scenario == ScenarioSlow {
			run *= 20
		}
		most := s.Relays.Value * (12 + int((s.FaultFor.Value+run)/s.Lease.Value))
		if lease := s.Lease.Value.Seconds(); 4*s.Service.Value.Seconds() > lease || float64(10*s.Relays.Value) > e.drain*lease {
			most += r.Rows // a lease that is too short for what relays send before they know the drain
		}
		if r.StaleCopies > most {
			t.Fatalf("W4: %d stale copies, want %d at most: %+v", r.StaleCopies, most, r)
		}
		takes, givenBack := r.Settled, 0
		switch s.Scenario {
		case ScenarioWorkersDown:
			takes += r.Hit
		case ScenarioBrokerLoss, ScenarioRelayLoss:
			givenBack = e.writes - claims - takes - r.Settled // each a claim that was not sent
			if givenBack < 0 || givenBack > claims {
				t.Fatalf("W6: %d writes for %d claims of %d rows", e.writes, claims, r.Settled)
			}
		}
		if e.writes != claims+takes+r.Settled+givenBack {
			t.Fatalf("W6: %d writes for %d claims, %d takes and %d acknowledgements", e.writes, claims, takes, r.Settled)
		}
	})
}

// W2: no row lapses in the queue while the drain stays above what it was by target ÷
// lease, with some room for chance.
func TestNoRowLapsesWhileTheDrainHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lease := time.Duration(rapid.IntRange(60, 300).Draw(t, "lease")) * time.Second
		target := min(window.DefaultTarget, lease/4)
		s := Simulation{
			Scenario: ScenarioSlow, Rows: Typed(rapid.IntRange(500, 1500).Draw(t, "rows")),
			Workers: Typed(rapid.IntRange(8, 40).Draw(t, "workers")), Service: Typed(time.Second), Lease: Typed(lease),
			Relays: Typed(rapid.IntRange(1, 3).Draw(t, "relays")), Seed: rapid.Uint64Range(0, 1000).Draw(t, "seed"),
			FaultAt: Typed(30 * time.Second), FaultFor: Typed(10 * time.Minute),
			Slowdown: Typed(rapid.Float64Range(1, max(1, 0.4*lease.Seconds()/target.Seconds())).Draw(t, "slowdown")),
		}
		r, err := Simulate(s)
		if err != nil || !r.Converges {
			t.Fatal(err, r)
		}
		if r.StaleCopies != 0 || r.LongestWait.Duration() > lease*11/10 {
			t.Fatalf("%d stale copies, a row waited %s under %s: %+v", r.StaleCopies, r.LongestWait, lease, r)
		}
	})
}

// W3: while the lane stands still each relay sends one row in a gap that doubles up to
// the lease, and that bounds the stale copies.
func TestStalledLanesAreProbed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lease := time.Duration(rapid.IntRange(30, 120).Draw(t, "lease")) * time.Second
		// Beyond 20 leases what was held through the outage is let go when it ends.
		outage := lease * time.Duration(rapid.IntRange(100, 1900).Draw(t, "outage in leases")) / 100
		s := Simulation{
			Scenario: ScenarioWorkersDown, Rows: Typed(600), Workers: Typed(rapid.IntRange(5, 40).Draw(t, "workers")),
			Service: Typed(time.Second), Lease: Typed(lease), Relays: Typed(rapid.IntRange(1, 4).Draw(t, "relays")),
			FaultAt: Typed(10 * time.Second), FaultFor: Typed(outage), Seed: rapid.Uint64Range(0, 1000).Draw(t, "seed"),
		}
		probes := map[*relay][]time.Duration{}
		_, r := watched(t, s, func(e *engine, c claim) {
			switch {
			case c.rows == nil:
			case c.probe && e.now > s.FaultAt.Value && e.now <= s.FaultAt.Value+outage:
				probes[c.relay] = append(probes[c.relay], e.now)
				if len(c.rows) != 1 {
					t.Fatalf("a probe of %d rows", len(c.rows))
				}
			case c.decision.Stalled && !c.probe:
				t.Fatalf("%d rows were claimed at %s while the lane stood still", len(c.rows), e.now)
			}
		})
		gap, most := 5*time.Second, 0.0 // five polls is the shortest
		bound := math.Log2(lease.Seconds()/gap.Seconds()) + outage.Seconds()/lease.Seconds() + 2
		for _, at := range probes {
			if !slices.IsSorted(at) || float64(len(at)) > bound {
				t.Fatalf("probes at %s, want %v at most", at, bound)
			}
			for i := 1; i < len(at); i++ {
				if want := min(lease, gap<<min(i-1, 10)); at[i]-at[i-1] < want {
					t.Fatalf("probes at %s, the gap to number %d is not %s", at, i, want)
				}
			}
			most += bound
		}
		if !r.Converges || float64(r.StaleCopies) > most {
			t.Fatalf("%d stale copies, want %v at most: %+v", r.StaleCopies, most, r)
		}
	})
}
