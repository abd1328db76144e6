package sizing

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// burst28k is the burst of the incident, with all else as the vectors have it.
func burst28k() Load {
	return Load{Ahead: Typed(28_000), Workers: Typed(20), Drain: Typed(20.0), Service: Typed(time.Second)}
}

func mustSize(t testing.TB, load Load) Answer {
	t.Helper()
	answer, err := Size(load)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestSizeOfABurst(t *testing.T) {
	t.Parallel()
	a := mustSize(t, burst28k())
	if a.MinLease != Seconds(1400*time.Second) || a.Lease != Seconds(1590*time.Second) || a.Judged != a.Lease {
		t.Errorf("leases %s, %s and %s, want 1400s, 1590s and the same", a.MinLease, a.Lease, a.Judged)
	}
	if a.StaleCopies != 0 || !a.Converges || a.MaxBacklog < 28_000 || a.WorkersNeeded != 20 {
		t.Errorf("under the lease that is recommended: %+v", a)
	}
	if a.Cost.WritesPerRow != 4 || a.Cost.Uncancellable != 28_000 || a.Cost.LostBrokerWait != a.Lease {
		t.Errorf("cost %+v", a.Cost)
	}

	load := burst28k()
	load.Drain, load.Samples = Live(20.0, "settled rows, busy minutes"), Live(5000, "")
	if a := mustSize(t, load); a.Lease != Seconds(1470*time.Second) {
		t.Errorf("a drain measured on 5,000 rows: lease %s, want 1470s", a.Lease)
	}
}

func TestSizeJudgesTheLeaseThatIsThere(t *testing.T) {
	t.Parallel()
	load := burst28k()
	load.Lease, load.StaleShare = Typed(900*time.Second), Typed(1.0)
	a := mustSize(t, load)
	if a.MaxBacklog != 15_886 || a.WorkersNeeded != 36 || a.StaleCopies != 12_000 || a.CollapseBacklog != 36_000 || !a.Converges {
		t.Errorf("%+v", a)
	}
	if a.InsideLease != 990_000 || a.WithoutExtension != 90_001 {
		t.Errorf("%+v", a.Batch)
	}
	if want := 4 + 2*12_000.0/28_000; math.Abs(a.Cost.WritesPerRow-want) > 1e-9 {
		t.Errorf("%v writes a row, want %v", a.Cost.WritesPerRow, want)
	}
	if !slices.ContainsFunc(a.Warnings, func(w string) bool {
		return strings.Contains(w, "about 12000 stale copies; raise it to 26m30s, or use the window")
	}) {
		t.Errorf("no warning that the lease lapses: %q", a.Warnings)
	}

	load.Ahead = Typed(36_500)
	if a := mustSize(t, load); a.Converges || !strings.Contains(a.Warnings[0], "36500 rows under 15m0s do not converge") {
		t.Errorf("a queue that never gets done: converges %t, %q", a.Converges, a.Warnings)
	}
}

func TestSizeWithoutWorkers(t *testing.T) {
	t.Parallel()
	a := mustSize(t, Load{Ahead: Typed(28_000), Drain: Typed(20.0)})
	if a.MinLease != Seconds(1400*time.Second) || a.WorkersNeeded != 0 || !strings.Contains(a.Warnings[0], "workers are not known") {
		t.Errorf("%+v", a)
	}
	a = mustSize(t, Load{Ahead: Typed(28_000), Drain: Typed(20.0), Service: Typed(time.Second), Lease: Typed(900 * time.Second)})
	if a.WorkersNeeded != 36 {
		t.Errorf("drain and service tell the workers: %d needed, want 36", a.WorkersNeeded)
	}
}

// A billion rows are a lease of years, and no number on the way overflows.
func TestSizeOfABillion(t *testing.T) {
	t.Parallel()
	a := mustSize(t, Load{Ahead: Typed(1_000_000_000), Workers: Typed(20), Service: Typed(time.Second), Lease: Typed(time.Hour)})
	if a.MinLease != Seconds(50_000_000*time.Second) || a.WorkersNeeded < 277_778 || a.WorkersNeeded > 320_000 || a.Converges {
		t.Errorf("%+v", a)
	}
	_, err := Size(Load{Ahead: Typed(1_000_000_000), Drain: Typed(0.01)})
	if !errors.Is(err, ErrTooLong) {
		t.Errorf("three thousand years: %v", err)
	}
}

func TestSizeJSON(t *testing.T) {
	t.Parallel()
	load := burst28k()
	load.Lease = Live(900*time.Second, "the lane mail")
	text, err := json.Marshal(mustSize(t, load))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"min_lease_seconds": 1400.0, "lease_seconds": 1590.0, "confidence": 0.99, "max_backlog": 15_886.0, "workers_needed": 36.0,
		"batch_inside_lease": 990_000.0, "batch_without_extension": 90_001.0, "stale_copies": 10_000.0, "converges": true,
		"collapse_backlog": 3_618_000.0,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if wait, ok := got["wait_seconds"].(float64); !ok || math.Abs(wait-1578.28) > 0.01 {
		t.Errorf("wait_seconds is %v", got["wait_seconds"])
	}
	inputs, _ := got["inputs"].(map[string]any)
	for name, want := range map[string]map[string]any{
		"ahead_rows":    {"value": 28_000.0, "source": "typed"},
		"lease_seconds": {"value": 900.0, "source": "live", "note": "the lane mail"},
		"confidence":    {"value": 0.99, "source": "default"},
	} {
		input, _ := inputs[name].(map[string]any)
		for key, value := range want {
			if input[key] != value {
				t.Errorf("input %s: %s is %v, want %v", name, key, input[key], value)
			}
		}
	}
	if _, ok := got["warnings"].([]any); !ok {
		t.Errorf("warnings are %v", got["warnings"])
	}
}

// loads draws a lane of which Size has an answer.
func loads(t *rapid.T) Load {
	workers := rapid.IntRange(1, 200).Draw(t, "workers")
	service := time.Duration(rapid.IntRange(1, 100_000).Draw(t, "service in ms")) * time.Millisecond
	drain := float64(workers) / service.Seconds()
	load := Load{
		Ahead:   Typed(rapid.IntRange(0, 1_000_000).Draw(t, "ahead")),
		Workers: Typed(workers), Service: Typed(service), CV: Typed(rapid.Float64Range(0, 4).Draw(t, "cv")),
		Arrivals:   Typed(drain * rapid.Float64Range(0, 0.85).Draw(t, "load")),
		Confidence: Typed(rapid.Float64Range(0.5, 0.9999).Draw(t, "confidence")),
		Dispersion: Typed(rapid.Float64Range(1, 500).Draw(t, "dispersion")),
	}
	return load
}

func waitOf(t *rapid.T, load Load) float64 {
	m, err := load.resolve()
	if err != nil {
		t.Fatal(err)
	}
	return m.wait()
}

// More of what is bad needs a longer lease, and more of what is good a shorter one.
func TestWaitIsMonotonic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		load := loads(t)
		before := waitOf(t, load)
		more := load
		switch what := rapid.SampledFrom([]string{"ahead", "cv", "arrivals", "confidence", "dispersion", "poll"}).Draw(t, "more"); what {
		case "ahead":
			more.Ahead.Value += rapid.IntRange(1, 1_000_000).Draw(t, "by")
		case "cv":
			more.CV.Value *= 1.5
		case "arrivals":
			more.Arrivals.Value *= 1.02
		case "confidence":
			more.Confidence.Value = (1 + more.Confidence.Value) / 2
		case "dispersion":
			more.Dispersion.Value *= 2
		case "poll":
			more.Poll = Typed(time.Minute)
		}
		if after := waitOf(t, more); after < before*(1-1e-12) {
			t.Fatalf("%+v waits %v, and %+v only %v", load, before, more, after)
		}
		if load.Workers.Value > 1 {
			m, err := load.resolve()
			if err != nil {
				t.Fatal(err)
			}
			if fewer := m.withWorkers(m.workers - 1); fewer.low > fewer.arrivals && fewer.wait() < before*(1-1e-9) {
				t.Fatalf("%+v waits %v, and with a worker less %v", load, before, fewer.wait())
			}
		}
	})
}

// What a lease holds is the wait turned round: so many rows wait no longer than it,
// and one more does. And so for workers.
func TestHoldsAndWorkersAreTheWaitTurnedRound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, err := loads(t).resolve()
		if err != nil {
			t.Fatal(err)
		}
		lease := rapid.Float64Range(2, 20_000).Draw(t, "lease")
		other := *m
		other.ahead = float64(m.holds(lease))
		if other.ahead > 0 && other.wait() > lease*(1+1e-9) {
			t.Fatalf("%v s hold %v rows, which wait %v s", lease, other.ahead, other.wait())
		}
		if other.ahead++; other.wait() < lease*(1-1e-9) {
			t.Fatalf("%v s hold %v rows too, which wait %v s", lease, other.ahead, other.wait())
		}
		workers, ok := m.workersFor(lease)
		if !ok {
			t.Fatalf("no number of workers brings the wait below %v s", lease)
		}
		if wait := m.withWorkers(workers).wait(); wait > lease {
			t.Fatalf("%d workers wait %v s, want %v at most", workers, wait, lease)
		}
		if fewer := m.withWorkers(workers - 1); workers > 1 && fewer.low > fewer.arrivals && fewer.wait() <= lease {
			t.Fatalf("%d workers would do too: they wait %v s of %v", workers-1, fewer.wait(), lease)
		}
	})
}

// A lease that is recommended makes no stale copies at the drain that is counted on,
// and is no shorter than the rule of thumb.
func TestRecommendedLeaseIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		load := loads(t)
		a, err := Size(load)
		if err != nil {
			t.Fatal(err)
		}
		if a.StaleCopies != 0 || a.StaleAtLowDrain != 0 || !a.Converges || a.Lease < a.Wait || a.Wait < a.MinLease || a.MaxBacklog < load.Ahead.Value {
			t.Fatalf("%+v", a)
		}
	})
}

func TestBatchesFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lease := time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "lease"))
		row := time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "row"))
		b := batches(lease, row)
		limit := lease + lease/10
		if b.InsideLease > int64(limit/row) || b.InsideLease < 0 || b.InsideLease > 0 && time.Duration(b.InsideLease)*row > limit {
			t.Fatalf("%+v under %s at %s a row", b, lease, row)
		}
		if last := time.Duration(b.WithoutExtension-1) * row; last > lease/10 || lease/10-last >= row {
			t.Fatalf("%+v under %s at %s a row", b, lease, row)
		}
	})
}
