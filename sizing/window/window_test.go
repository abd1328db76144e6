package window

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newWindow(t testing.TB, rules Rules) *Window {
	t.Helper()
	w, err := New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// at is a number of seconds.
func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func TestWindowBeginsSmall(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: time.Minute})
	d := w.Look(0, Look{TakenAt: Never})
	if d.Claim != 10 || d.Size != 10 || d.Probe || d.Stalled || d.Drain != 0 || d.LookIn != time.Second {
		t.Errorf("%+v", d)
	}
	w.Claimed(7, 7)
	if w.Room() != 3 {
		t.Errorf("room for %d after 7 of 10", w.Room())
	}
}

// It grows only where a full window ran dry: there was more to do than it let out.
func TestWindowGrowsWhereItStarves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		asked, got, taken int
		waiting           int
		want              int
		lookIn            time.Duration
	}{
		{"starved", 10, 10, 10, 0, 20, shortestGap},
		{"nothing more to do", 10, 9, 9, 0, 10, time.Second},
		{"nothing taken", 10, 10, 0, 0, 10, time.Second},
		{"some wait", 10, 10, 9, 1, 10, time.Second},
	} {
		w := newWindow(t, Rules{Lease: time.Minute})
		w.Look(0, Look{TakenAt: Never})
		w.Claimed(c.asked, c.got)
		d := w.Look(at(1), Look{Taken: c.taken, Waiting: c.waiting, TakenAt: Never})
		if d.Size != c.want || d.Claim != c.want-c.waiting || d.LookIn != c.lookIn {
			t.Errorf("%s: %+v, want a window of %d", c.name, d, c.want)
		}
	}
}

func TestWindowFollowsTheDrain(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: time.Minute})
	var d Decision
	for s := range 10 {
		d = w.Look(at(float64(s)), Look{Waiting: 5, Taken: 20, Settled: 20, TakenAt: at(float64(s))})
	}
	if d.Drain != 20 || d.Size != 200 || d.Claim != 195 {
		t.Errorf("%+v, want ten seconds of 20 rows", d)
	}
	// Never more than half of what is started within a lease, however starved.
	w = newWindow(t, Rules{Lease: 40 * time.Second})
	for s := range 20 {
		d = w.Look(at(float64(s)), Look{Taken: 20, Settled: 20, Waiting: (s + 1) % 2, TakenAt: Never})
		w.Claimed(d.Claim, d.Claim)
		if s > 3 && float64(d.Size) > 0.5*40*math.Max(d.Drain, 20)+1 {
			t.Fatalf("%+v", d)
		}
	}
	// Nor more than is good to look at.
	w = newWindow(t, Rules{Lease: time.Hour})
	for s := range 60 {
		d = w.Look(at(float64(s)), Look{Taken: 5000, Settled: 5000, Waiting: 1, TakenAt: Never})
		w.Claimed(d.Claim, d.Claim)
	}
	if d.Size != 10_000 {
		t.Errorf("%+v, want two seconds of a drain of 5000", d)
	}
}

func TestWindowCountsWhatTheQueueHas(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: time.Minute})
	if d := w.Look(0, Look{Waiting: 10, TakenAt: Never}); d.Claim != 0 {
		t.Errorf("%+v, want nothing with ten rows that wait", d)
	}
	if d := w.Look(at(1), Look{Waiting: 10, DepthKnown: true, Depth: 3, TakenAt: Never}); d.Claim != 7 {
		t.Errorf("%+v, want seven: the queue has three", d)
	}
	if d := w.Look(at(2), Look{Waiting: 4, Unsent: 5, TakenAt: Never}); d.Claim != 1 {
		t.Errorf("%+v, want one: four wait and five will", d)
	}
}

// A lane that stands still is probed with one row, in gaps that double up to the lease;
// only a probe that was sent counts. A take ends it, and the window begins at its least.
func TestStall(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: time.Minute})
	for s := range 5 {
		w.Look(at(float64(s)), Look{Waiting: 5, Taken: 20, Settled: 20, TakenAt: at(float64(s))})
	}
	still := Look{Waiting: 150, TakenAt: at(4)}
	for s := 5; s < 9; s++ {
		if d := w.Look(at(float64(s)), still); d.Stalled || d.Probe {
			t.Fatalf("stalled after %d s: %+v", s-4, d)
		}
	}
	d := w.Look(at(9), still)
	if !d.Stalled || !d.Probe || d.Claim != 0 || d.Size != 2 || d.Drain != 0 {
		t.Fatalf("%+v, want that it stands still after five polls", d)
	}
	if d := w.Look(at(10), still); !d.Probe {
		t.Fatalf("%+v, want a probe until one is sent", d)
	}
	w.Probed(at(10))
	var probes []int
	for s := 11; s < 300; s++ {
		if d := w.Look(at(float64(s)), still); d.Probe {
			probes = append(probes, s)
			w.Probed(at(float64(s)))
		} else if d.Claim != 0 {
			t.Fatalf("%+v while it stands still", d)
		}
	}
	want := []int{15, 25, 45, 85, 145, 205, 265}
	if len(probes) != len(want) {
		t.Fatalf("probes at %v, want %v", probes, want)
	}
	for i := range want {
		if probes[i] != want[i] {
			t.Fatalf("probes at %v, want %v", probes, want)
		}
	}
	d = w.Look(at(300), Look{Taken: 1, TakenAt: at(290)})
	if d.Stalled || d.Size != 4 || d.Claim != 4 { // the probe filled its claim, so it doubles at once
		t.Errorf("%+v after a take", d)
	}
}

// Another relay's rows count as well: what they left behind would wait for ever.
func TestStallOfOthersRows(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: time.Minute})
	var d Decision
	for s := range 61 {
		d = w.Look(at(float64(s)), Look{Lapsed: true, TakenAt: Never})
	}
	if !d.Probe {
		t.Errorf("%+v, want a probe after a lease", d)
	}
	// Somebody takes.
	if d = w.Look(at(61), Look{Lapsed: true, TakenAt: at(3)}); d.Stalled {
		t.Errorf("%+v after a take", d)
	}
}

func TestFrontier(t *testing.T) {
	t.Parallel()
	rules := newWindow(t, Rules{Lease: time.Minute}).Rules()
	lifo := newWindow(t, Rules{Lease: time.Minute, Unordered: true}).Rules()
	for _, c := range []struct {
		name     string
		rules    Rules
		now      time.Duration
		frontier time.Duration
		row      Lapsed
		want     bool
	}{
		{"nothing taken yet", rules, at(100), Never, Lapsed{HandedOff: at(10)}, false},
		{"not reached", rules, at(100), at(9), Lapsed{HandedOff: at(10)}, false},
		{"reached", rules, at(100), at(14), Lapsed{HandedOff: at(10)}, false},
		{"overtaken", rules, at(100), at(16), Lapsed{HandedOff: at(10)}, true},
		{"of a dead worker", rules, at(100), Never, Lapsed{HandedOff: at(10), Taken: true}, true},
		{"given back", rules, at(100), Never, Lapsed{HandedOff: Never}, true},
		{"held for 20 leases", rules, at(1210), Never, Lapsed{HandedOff: at(10)}, false},
		{"held for longer", rules, at(1211), Never, Lapsed{HandedOff: at(10)}, true},
		{"in no order", lifo, at(100), Never, Lapsed{HandedOff: at(10)}, true},
	} {
		if got := c.rules.Reclaim(c.now, c.frontier, c.row); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name     string
		rules    Rules
		frontier time.Duration
		lapsed   bool
		want     bool
	}{
		{"nothing taken yet", rules, Never, true, true},
		{"overtaken by less than the target", rules, at(19), true, true},
		{"overtaken", rules, at(21), false, false},
		{"in no order", lifo, at(21), false, true},
		{"in no order, lapsed", lifo, at(21), true, false},
	} {
		if got := c.rules.Waits(c.frontier, at(10), c.lapsed); got != c.want {
			t.Errorf("%s: waits %t, want %t", c.name, got, c.want)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease, target time.Duration
	}{{time.Minute, 10 * time.Second}, {20 * time.Second, 5 * time.Second}, {time.Hour, 10 * time.Second}} {
		r := newWindow(t, Rules{Lease: c.lease}).Rules()
		if want := (Rules{Lease: c.lease, Poll: time.Second, Target: c.target, Margin: 5 * time.Second, MaxHold: 20 * c.lease}); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	for _, r := range []Rules{
		{}, {Lease: -1}, {Lease: math.MaxInt64}, {Lease: time.Minute, Poll: -1}, {Lease: time.Minute, Target: -1},
		{Lease: time.Minute, Margin: -1}, {Lease: time.Minute, MaxHold: -1}, {Lease: time.Minute, Target: 16 * time.Second},
	} {
		if _, err := New(r); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

// Whatever is seen: the window is at least two rows, and at most half of what is started
// within a lease, or 32 while nothing is known; it never more than doubles; and what
// waits and may be claimed fits it.
func TestWindowStaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{
			Lease: at(rapid.Float64Range(1, 3600).Draw(t, "lease")),
			Poll:  at(rapid.Float64Range(0.1, 10).Draw(t, "poll")),
		}
		w, err := New(rules)
		if err != nil {
			t.Fatal(err)
		}
		now, taken, size := time.Duration(0), Never, 10
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			now += at(rapid.Float64Range(0.25, 20).Draw(t, "after"))
			settled := rapid.IntRange(0, 500).Draw(t, "settled")
			look := Look{
				Waiting: rapid.IntRange(0, 300).Draw(t, "waiting"), Unsent: rapid.IntRange(0, 3).Draw(t, "unsent"),
				Taken: settled + rapid.IntRange(0, 20).Draw(t, "taken"), Settled: settled,
				Lapsed: rapid.Bool().Draw(t, "lapsed"),
			}
			if rapid.Bool().Draw(t, "taken elsewhere") {
				taken = now
			}
			look.TakenAt = taken
			d := w.Look(now, look)
			ceiling := max(2, 0.5*rules.Lease.Seconds()*w.drain.AtLeast())
			if d.Drain == 0 {
				ceiling = max(ceiling, 32)
			}
			if d.Size < 2 || float64(d.Size) > math.Ceil(ceiling) || d.Size > 2*size && !d.Stalled {
				t.Fatalf("%+v after a window of %d, want %v at most", d, size, ceiling)
			}
			if d.Claim < 0 || d.Claim > 0 && look.Waiting+look.Unsent+d.Claim > d.Size || d.Stalled && d.Claim > 0 || d.Probe && !d.Stalled {
				t.Fatalf("%+v for %+v", d, look)
			}
			if d.LookIn <= 0 || d.LookIn > rules.Poll {
				t.Fatalf("%+v, want a look within %s", d, rules.Poll)
			}
			size = d.Size
			if got := rapid.IntRange(0, d.Claim).Draw(t, "got"); d.Claim > 0 {
				w.Claimed(d.Claim, got)
			}
			if d.Probe && rapid.Bool().Draw(t, "sent") {
				w.Probed(now)
			}
		}
	})
}

// A probe that is due late, because a poll is long, is not followed sooner.
func TestProbeGapNeverShrinks(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: 4 * time.Second, Poll: 2 * time.Second})
	var probes []int
	for s := range 60 {
		if d := w.Look(at(float64(s)), Look{Waiting: 5, TakenAt: Never}); d.Probe {
			probes = append(probes, s)
			w.Probed(at(float64(s)))
		}
	}
	for i := 1; i < len(probes); i++ {
		if probes[i]-probes[i-1] < 10 {
			t.Fatalf("probes at %v, want ten seconds between them", probes)
		}
	}
}

// Rows that the queue has lost keep a lane standing still, and do not fill its window.
func TestLostRowsStall(t *testing.T) {
	t.Parallel()
	w := newWindow(t, Rules{Lease: time.Minute})
	if d := w.Look(0, Look{Lost: 10, TakenAt: Never}); d.Claim != 10 || d.Stalled {
		t.Errorf("%+v with ten rows that are lost, want room for ten", d)
	}
	if d := w.Look(at(60), Look{Lost: 10, TakenAt: Never}); !d.Stalled {
		t.Errorf("%+v a lease later, want that it stands still", d)
	}
	if d := w.Look(at(61), Look{Lost: 10, Taken: 1, TakenAt: Never}); d.Stalled {
		t.Errorf("%+v after a take", d)
	}
}
