package sizing

import (
	"math"
	"testing"
)

func TestNormalQuantile(t *testing.T) {
	t.Parallel()
	for p, want := range map[float64]float64{0.5: 0, 0.9: 1.2815515655, 0.99: 2.3263478740, 0.999: 3.0902323062} {
		if got := normalQuantile(p); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
}

func TestErlangC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workers int
		load    float64
		want    float64
	}{
		{1, 0.5, 0.5}, // one worker: the share of its time that it is busy
		{2, 1, 1.0 / 3},
		{10, 8, 0.409180}, // from tables
		{20, 16, 0.256078},
		{20, 0, 0},
		{20, 20, 1},
		{20, 25, 1},
	} {
		if got := erlangC(c.workers, c.load); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%d workers, load %v: %v, want %v", c.workers, c.load, got, c.want)
		}
	}
	// The limit takes over where both say the same.
	for _, busy := range []float64{0.9, 0.99, 0.999} {
		exact, limit := erlangC(erlangExact, busy*erlangExact), erlangC(erlangExact+1, busy*(erlangExact+1))
		if math.Abs(exact-limit) > 0.004 {
			t.Errorf("%v busy: %v, and %v with a worker more", busy, exact, limit)
		}
	}
}

// The tail against queues that were simulated for 1.5 million rows each: the 99th
// percentile of the wait, in seconds.
func TestSteadyWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		workers            int
		busy, cv, clumping float64
		formula, simulated float64
		within             float64 // of the simulated, as a factor
	}{
		{"random", 20, 0.8, 1, 1, 0.81, 0.82, 1.05},
		{"random, very busy", 20, 0.95, 1, 1, 4.32 * 1.1, 4.78, 1.05},
		{"even runs", 20, 0.9, 0, 1, 1.00, 0.97, 1.05},
		{"uneven runs", 20, 0.9, 2, 1, 5.01, 4.71, 1.1},
		{"uneven runs, few workers", 4, 0.9, 2, 1, 5.46, 5.84, 1.1},
		{"very uneven runs", 20, 0.9, 4, 1, 17.0, 12.9, 1.35}, // on the safe side
		{"batches of 200", 20, 0.8, 1, 200, 110, 94, 1.2},
		{"batches of 1000", 20, 0.8, 1, 1000, 548, 469, 1.2},
	} {
		m, err := Load{
			Ahead: Typed(0), Workers: Typed(c.workers), Drain: Typed(20.0), CV: Typed(c.cv),
			Arrivals: Typed(0.0), Dispersion: Typed(c.clumping),
		}.resolve()
		if err != nil {
			t.Fatal(err)
		}
		m.low = m.drain // the formula is about the drain that there is
		m.arrivals = c.busy * m.drain
		got := m.steady()
		if math.Abs(got-c.formula) > 0.01*c.formula+0.01 {
			t.Errorf("%s: %v s, want %v", c.name, got, c.formula)
		}
		if got > c.simulated*c.within || got < c.simulated/c.within {
			t.Errorf("%s: %v s, simulated %v", c.name, got, c.simulated)
		}
	}
}
