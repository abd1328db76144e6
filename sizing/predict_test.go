package sizing

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The predictor against simulations with random runs: of this simulator, and what
// another one measured.
func TestPredictorAgreesWithSimulation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows, workers int
		service, cv   float64
		share, rate   float64
		lease         float64
		measured      int
		predicted     int
		seeds         uint64 // where few of them would be few for the noise
	}{
		{28_000, 20, 1, 1, 0.01, 4762, 900, 9868, 9914, 1},
		{28_000, 20, 1, 1, 1, 4762, 900, 11_530, 11_697, 3},
		{28_000, 20, 1, 1, 0.5, 488, 900, 9157, 9220, 1},
		{28_000, 20, 1, 1, 0.05, 198, 900, 7469, 7539, 1},
		{28_000, 4, 0.2, 1, 0.025, 952, 300, 53_254, 53_385, 1},
		{28_000, 4, 0.2, 2, 0.1, 952, 300, 66_823, 66_047, 3},
		{10_000, 10, 0.5, 0.5, 0.02, 909, 60, 39_153, 39_140, 1},
		{5_000, 10, 0.5, 0.5, 0.2, 909, 60, 13_373, 13_322, 1},
	} {
		p, err := Predict(Burst{
			Rows: c.rows, Drain: float64(c.workers) / c.service, Lease: span(c.lease), StaleShare: c.share,
			RelayRate: c.rate, Poll: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		if off(p.StaleCopies, c.predicted) > 0.0005 || off(p.StaleCopies, c.measured) > 0.015 {
			t.Errorf("%+v: %d stale copies", c, p.StaleCopies)
		}
		if !soak && p.StaleCopies > 40_000 {
			continue
		}
		sum := 0
		for seed := range c.seeds {
			r := mustSimulate(t, Simulation{
				Window: WindowOff, Rows: Typed(c.rows), Workers: Typed(c.workers), Service: Typed(span(c.service)), CV: Typed(c.cv),
				Lease: Typed(span(c.lease)), StandardLease: Typed(time.Second), StaleShare: Typed(c.share),
				Relays: Typed(1), Send: Typed(span(1 / c.rate)), Seed: seed,
			})
			sum += r.StaleCopies
			if *r.Predicted != p {
				t.Errorf("%+v: the simulation predicts %+v, want %+v", c, *r.Predicted, p)
			}
		}
		if simulated := sum / int(c.seeds); off(p.StaleCopies, simulated) > 0.015 {
			t.Errorf("%+v: %d stale copies, and %d simulated", c, p.StaleCopies, simulated)
		}
	}
}

func off(got, want int) float64 { return math.Abs(float64(got)-float64(want)) / float64(want) }

// What the incident's 12,918 stale copies would have taken, for a lapse that is seen
// half a second late. A stale copy that costs a full slot is the only one for which the
// drain is that of the report, 20/s, but for its last digit.
func TestWhatTheIncidentTook(t *testing.T) {
	t.Parallel()
	for share, drain := range map[float64]float64{0: 16.75, 0.25: 17.11, 0.5: 18.11, 0.75: 18.98, 1: 19.73} {
		p, err := Predict(Burst{Rows: 28_000, Drain: drain, Lease: 900 * time.Second, StaleShare: share, Poll: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		// The drain is rounded to a hundredth, and that is up to 18 copies.
		if math.Abs(float64(p.StaleCopies-12_918)) > 20 {
			t.Errorf("at %v/s and a share of %v: %d stale copies, want 12918", drain, share, p.StaleCopies)
		}
	}
}

func TestCompareLeases(t *testing.T) {
	t.Parallel()
	const never = -1
	leases := []time.Duration{60 * time.Second, 300 * time.Second, 600 * time.Second, 900 * time.Second, 1200 * time.Second, 1400 * time.Second}
	for share, want := range map[float64][]int{
		0.01: {368_211, 53_088, 20_160, 10_000, 4000, 0},
		0.1:  {never, 68_006, 21_600, 10_000, 4000, 0},
		1:    {never, never, never, 12_000, 4000, 0},
	} {
		rows, err := Compare(Burst{Rows: 28_000, Drain: 20, StaleShare: share}, leases...)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if row.Converges != (want[i] != never) || row.Converges && row.StaleCopies != want[i] {
				t.Errorf("a share of %v under %s: %+v, want %d", share, leases[i], row.Prediction, want[i])
			}
			if row.Lease.Duration() != leases[i] || row.Holds != int(leases[i].Seconds())*20 || row.Cost.DeadWorkerWait != row.Lease {
				t.Errorf("%+v under %s", row, leases[i])
			}
			if share == 1 && row.CollapseBacklog != 2*row.Holds {
				t.Errorf("under %s it collapses from %d on, want %d", leases[i], row.CollapseBacklog, 2*row.Holds)
			}
		}
	}
}

// Rows by the billion are gone through by so many at a time, and come to the same.
func TestPredictABillion(t *testing.T) {
	t.Parallel()
	small := Burst{Rows: 100_000, Drain: 20, Lease: time.Hour, StaleShare: 0.1, RelayRate: 1000}
	large := Burst{Rows: 1_000_000_000, Drain: 200_000, Lease: time.Hour, StaleShare: 0.1, RelayRate: 10_000_000}
	a, err := Predict(small)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Predict(large)
	if err != nil {
		t.Fatal(err)
	}
	if off(b.StaleCopies, 10_000*a.StaleCopies) > 0.001 || a.StaleCopies == 0 {
		t.Errorf("%d stale copies of a billion, %d of a hundred thousand", b.StaleCopies, a.StaleCopies)
	}
}

// One pass and the sum agree where relays send as good as at once, and a slow relay
// makes fewer.
func TestPredictorsAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := Burst{
			Rows:  rapid.IntRange(2000, 5000).Draw(t, "rows"),
			Drain: rapid.Float64Range(5, 50).Draw(t, "drain"), StaleShare: rapid.Float64Range(0, 0.5).Draw(t, "share"),
		}
		b.Lease = span(float64(b.Rows) / b.Drain * rapid.Float64Range(0.45, 1.2).Draw(t, "lease"))
		sum, err := Predict(b)
		if err != nil || !sum.Converges {
			t.Fatal(err, sum)
		}
		pass, _, converges := b.onePass()
		if math.Abs(pass-float64(sum.StaleCopies)) > 0.01*float64(sum.StaleCopies)+20 || !converges {
			t.Fatalf("%+v: %v stale copies (%t) in one pass, %d as a sum", b, pass, converges, sum.StaleCopies)
		}
		slow := b
		slow.RelayRate = b.Drain * rapid.Float64Range(1.01, 100).Draw(t, "relays")
		if fewer, _, converges := slow.onePass(); fewer > pass*1.001+20 || !converges {
			t.Fatalf("%+v: %v stale copies (%t), and %v with relays that send at once", slow, fewer, converges, pass)
		}
		longer := b
		longer.Lease += b.Lease / 10
		if p, err := Predict(longer); err != nil || p.StaleCopies > sum.StaleCopies {
			t.Fatalf("%+v: %d stale copies, and %d under a shorter lease", longer, p.StaleCopies, sum.StaleCopies)
		}
	})
}

// From the collapse on nothing converges, by sum or by pass; well below all does.
func TestCollapse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := Burst{
			Drain: rapid.Float64Range(5, 50).Draw(t, "drain"), StaleShare: rapid.Float64Range(0.3, 2).Draw(t, "share"),
			Lease: span(rapid.Float64Range(10, 30).Draw(t, "lease")),
		}
		at := b.collapse()
		b.Rows = at + at/50 + 5
		if _, converges := b.waves(); converges {
			t.Fatalf("%+v converges, and collapses from %d on", b, at)
		}
		if _, _, converges := b.onePass(); converges {
			t.Fatalf("%+v converges in one pass, and collapses from %d on", b, at)
		}
		b.Rows = at - at/20 - 5
		if _, converges := b.waves(); !converges {
			t.Fatalf("%+v does not converge, and collapses from %d on", b, at)
		}
		if _, _, converges := b.onePass(); !converges {
			t.Fatalf("%+v does not converge in one pass, and collapses from %d on", b, at)
		}
	})
	slow := Burst{Rows: 1_000_000, Drain: 20, Lease: time.Minute, StaleShare: 1, RelayRate: 19}
	if p, err := Predict(slow); err != nil || p.CollapseBacklog != 0 || !p.Converges {
		t.Errorf("relays that are slower than the workers: %+v (%v)", p, err)
	}
}
