package sizing

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// lab is rows of a lane that a test lays out, in seconds.
type lab struct {
	rows []waybill.HistoryRow
	now  float64
}

const labZero = waybill.Stamp(1_700_000_000_000_000)

func at(seconds float64) waybill.Stamp {
	return labZero + waybill.Stamp(math.Round(seconds*1e6))
}

// drains lays out n rows that are all handed off at one moment, and taken one by one by
// so many workers whose runs all take as long.
func (l *lab) drains(from float64, n, workers int, run float64) {
	for i := range n {
		taken := from + float64(i/workers)*run
		l.add(from, from, taken, taken+run)
	}
}

// trickles lays out n rows that come one by one, and are taken when they do.
func (l *lab) trickles(from float64, n int, gap, wait, run float64) {
	for i := range n {
		due := from + float64(i)*gap
		l.add(due, due, due+wait, due+wait+run)
	}
}

// add lays out a row as far as it has come by now.
func (l *lab) add(due, handedOff, taken, settled float64) {
	row := waybill.HistoryRow{ID: int64(len(l.rows) + 1), Status: waybill.Pending, DueAt: at(due)}
	if handedOff <= l.now {
		row.Status, row.HandedOffAt = waybill.Claimed, at(handedOff)
	}
	if taken <= l.now {
		row.TakenAt = at(taken)
	}
	if settled <= l.now {
		row.Status, row.SettledAt = waybill.Succeeded, at(settled)
	}
	l.rows = append(l.rows, row)
}

// running is the lane as it is now.
func (l *lab) running() Running {
	r := Running{Lane: "mail", Now: at(l.now), Rows: l.rows, Lease: Live(time.Minute, "")}
	for _, row := range l.rows {
		switch {
		case row.Status == waybill.Pending && row.DueAt <= r.Now:
			r.Due++
			r.DueSince = row.DueAt
		case row.Status == waybill.Claimed && row.TakenAt == 0:
			r.Waiting++
			r.WaitingSince = row.HandedOffAt
		case row.Status == waybill.Claimed:
			r.Running++
		}
	}
	return r
}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.Abs(got-want) > by*want {
		t.Errorf("%s = %g, want %g", what, got, want)
	}
}

// In the middle of a burst the drain is what workers do, whatever was before it.
func TestObserveABurst(t *testing.T) {
	t.Parallel()
	l := &lab{now: 1000}
	l.trickles(100, 300, 2.5, 0.01, 1) // 0.4 a second, which is no drain
	l.drains(900, 6000, 20, 1)         // 20 a second
	o := Observe(l.running())
	if o.Problem != nil || o.LowerBound || len(o.Warnings) > 0 {
		t.Fatalf("%+v", o)
	}
	near(t, "drain", o.Load.Drain.Value, 20, 0.01)
	near(t, "busy seconds", o.Busy.Duration().Seconds(), 98, 0.01)
	near(t, "service", o.Load.Service.Value.Seconds(), 1, 0.001)
	near(t, "cv", 1+o.Load.CV.Value, 1, 0.001)
	if ahead := o.Load.Ahead; ahead.Value != 6000-101*20 || ahead.Source != FromLive || ahead.Note != "3980 wait under a claim, 0 due" {
		t.Errorf("ahead: %+v", ahead)
	}
	if arrivals := o.Load.Arrivals.Value; arrivals > 0.41 {
		t.Errorf("arrivals of %g/s: the burst is no rate", arrivals)
	}
	if samples := o.Load.Samples; samples.Value != o.BusyRows || o.BusyRows < 1900 || o.Settled < o.BusyRows+300 {
		t.Errorf("%d rows in busy times, %d samples, %d settled", o.BusyRows, samples.Value, o.Settled)
	}
	answer, err := Size(o.Load)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "bare rule", answer.MinLease.Duration().Seconds(), 199, 0.01)
}

// The same lane at rest: what arrives is a lower bound of what workers do, and where it
// is known how many there are, that is what is gone by.
func TestObserveALaneThatIsNeverBusy(t *testing.T) {
	t.Parallel()
	l := &lab{now: 1000}
	l.trickles(100, 300, 2.5, 0.01, 1)
	r := l.running()
	o := Observe(r)
	if !o.LowerBound || o.Busy != 0 || o.Problem != nil || o.Load.Arrivals.Given() {
		t.Fatalf("%+v", o)
	}
	near(t, "drain", o.Load.Drain.Value, 0.4, 0.01)
	r.Consumers = waybill.Known(int64(20))
	o = Observe(r)
	if o.LowerBound || o.Load.Drain.Given() || o.Load.Workers.Value != 20 || len(o.Warnings) != 1 {
		t.Fatalf("%+v", o)
	}
	near(t, "arrivals", o.Load.Arrivals.Value, 0.4, 0.3)
	// A worker that looks into the queue once a second leaves rows there, and is idle.
	l = &lab{now: 1000}
	for i := range 5000 {
		due := 100 + float64(i)*0.1
		l.add(due, due, math.Ceil(due+1e-9), math.Ceil(due+1e-9)+0.05)
	}
	if o := Observe(l.running()); !o.LowerBound || o.BusyRows > 0 {
		t.Errorf("%d rows are counted as of a busy time of %s", o.BusyRows, o.Busy)
	}
}

// The oldest rows that were looked at may have been settled among others that were not.
func TestObserveLeavesOutWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	l := &lab{now: 30}
	l.add(-1, -1, -0.1, 0)
	for i := range 199 {
		taken := 10 + float64(i)*0.1
		l.add(-1, -1, taken, taken+0.1)
	}
	near(t, "drain", Observe(l.running()).Load.Drain.Value, 10, 0.02)
}

// A busy time of few rows is no measurement.
func TestObserveAShortBusyTime(t *testing.T) {
	t.Parallel()
	l := &lab{now: 1000}
	l.trickles(100, 300, 2.5, 0.01, 1)
	l.drains(900, 24, 4, 1)
	if o := Observe(l.running()); !o.LowerBound || o.BusyRows == 0 {
		t.Errorf("%+v", o)
	}
}

// A gap in the waits splits a busy time; a short one is none.
func TestBusyTimes(t *testing.T) {
	t.Parallel()
	rows := []waybill.HistoryRow{
		{Status: waybill.Succeeded, HandedOffAt: at(0), TakenAt: at(5)},
		{Status: waybill.Succeeded, HandedOffAt: at(4), TakenAt: at(10)},
		{Status: waybill.Succeeded, HandedOffAt: at(11), TakenAt: at(13)}, // too short
		{Status: waybill.Failed, HandedOffAt: at(20), TakenAt: at(30)},    // a run that is to be repeated took a slot, too
		{Status: waybill.Pending, DueAt: at(0)},
		{Status: waybill.Claimed, HandedOffAt: at(40)},
	}
	waiting := waits(rows, at(50), false)
	if len(waiting) != 4 || waiting[0] != (period{at(0.05), at(10)}) || waiting[3] != (period{at(40.05), at(50)}) {
		t.Fatalf("%v", waiting)
	}
	if empty := waits(rows, at(50), true); len(empty) != 3 {
		t.Errorf("a queue that says it is empty is busy: %v", empty)
	}
	settled := []waybill.Stamp{at(0.5), at(2), at(9.9), at(10), at(10.1), at(12.5), at(25), at(35), at(45)}
	got := busyTimes(waiting, settled, at(1), 500*time.Millisecond)
	if want := (busy{(8 + 8.95 + 8.95) * 1e9, 4}); got.rows != want.rows || (got.time-want.time).Abs() > time.Millisecond {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestObserveRefuses(t *testing.T) {
	t.Parallel()
	few, stuck := &lab{now: 100}, &lab{now: 1000}
	few.drains(90, 50, 1, 0.8)
	stuck.drains(-1000, 912, 1, 1)
	stuck.drains(100, 812, 1, 1)
	for i := range stuck.rows { // workers died at 100
		if row := &stuck.rows[i]; row.HandedOffAt >= at(100) {
			row.Status, row.TakenAt, row.SettledAt = waybill.Claimed, 0, 0
		}
	}
	due := &lab{now: 1000}
	due.drains(-1000, 100, 1, 1)
	paused := stuck.running()
	paused.Paused = true
	noRelay := due.running()
	noRelay.Due, noRelay.DueSince = 812, at(100)
	begun := Running{Lane: "mail", Now: at(1000), Running: 5, Waiting: 20, WaitingSince: at(10)}
	for _, test := range []struct {
		name    string
		running Running
		reason  error
		want    string
	}{
		{"few", few.running(), ErrFewSamples, "only 12 settled rows of lane mail are behind its drain, and it needs 30; measure for longer, or give the drain"},
		{"nothing yet", Running{Lane: "mail", Now: at(0)}, ErrFewSamples, "only 0 settled rows"},
		{"stuck", stuck.running(), ErrNoDrain, "nothing drains: no row of lane mail settled in the last 15m0s while 812 wait; workers are down"},
		{"paused", paused, ErrNoDrain, "the lane is paused: resume it"},
		{"no relay", noRelay, ErrNoDrain, "no row of lane mail settled in the last 15m0s while 812 wait; no relay hands its rows off"},
		{"never any", Running{Lane: "mail", Now: at(1000), Waiting: 5, WaitingSince: at(900)}, ErrNoDrain, "in the last 1m40s while 5 wait"},
		{"a burst that came just now", Running{Lane: "mail", Now: at(1000), Waiting: 5, WaitingSince: at(990)}, ErrFewSamples, ""},
		{"first runs that take long", begun, ErrFewSamples, ""},
	} {
		o := Observe(test.running)
		if !errors.Is(o.Problem, test.reason) || !strings.Contains(o.Problem.Error(), test.want) {
			t.Errorf("%s: %v, want %v: %s", test.name, o.Problem, test.reason, test.want)
		}
		if o.Load.Drain.Given() {
			t.Errorf("%s: a drain of %g", test.name, o.Load.Drain.Value)
		}
	}
}

// More arrives all the time than workers do: no lease is long enough.
func TestObserveArrivalsThatOutrunTheDrain(t *testing.T) {
	t.Parallel()
	l := &lab{now: 200}
	for i := range 22 * 200 {
		due := float64(i) / 22
		taken := max(due, float64(i)/20)
		l.add(due, due, taken, taken+1)
	}
	o := Observe(l.running())
	near(t, "arrivals", o.Load.Arrivals.Value, 22, 0.03)
	near(t, "drain", o.Load.Drain.Value, 20, 0.03)
	if _, err := Size(o.Load); !errors.Is(err, ErrArrivals) || !strings.Contains(err.Error(), "the queue grows without end; no lease is long enough: give at least 2") {
		t.Errorf("%v", err)
	}
}

// A window keeps due rows back; a relay in the middle of a burst does not.
func TestObserveWhatIsHeldBack(t *testing.T) {
	t.Parallel()
	l := &lab{now: 100}
	for i := range 2200 { // 200 in the queue, 20 a second
		l.add(0, max(0, float64(i-200)/20), float64(i)/20, float64(i)/20+1)
	}
	r := l.running()
	if r.Due != 0 {
		t.Fatalf("%d due", r.Due)
	}
	r.Due, r.DueSince = 5000, at(1)
	o := Observe(r)
	if !o.HeldBack || o.Load.Ahead.Value != o.Queued || len(o.Warnings) != 1 || o.Due != 5000 {
		t.Errorf("%+v", o)
	}
	r.DueSince = at(99)
	if Observe(r).HeldBack {
		t.Error("rows that are due since a second are held back")
	}
	l = &lab{now: 100}
	for i := range 5000 { // handed off at 100 a second, taken at 20
		l.add(0, float64(i)/100+90, float64(i)/20+90, float64(i)/20+91)
	}
	r = l.running()
	if o := Observe(r); o.HeldBack || r.Due < 3000 || o.Load.Ahead.Value != r.Due+r.Waiting {
		t.Errorf("a burst that is being handed off is held back: %+v", o)
	}
	r.Depth = waybill.Known(int64(700))
	if o := Observe(r); o.Queued != 700 || o.Load.Ahead.Value != r.Due+700 || !strings.HasPrefix(o.Load.Ahead.Note, "700 in the queue") {
		t.Errorf("the queue's own depth does not count: %+v", o.Load.Ahead)
	}
}

func TestObserveWaits(t *testing.T) {
	t.Parallel()
	l := &lab{now: 110}
	l.drains(0, 101, 1, 1)
	l.drains(108, 1, 1, 100)
	l.drains(105, 5, 1, 100)
	o := Observe(l.running())
	for what, got := range map[string]Seconds{"half": o.WaitP50 - Seconds(50*time.Second), "99 of 100": o.WaitP99 - Seconds(99*time.Second), "last": o.LastWait, "oldest": o.OldestWait - Seconds(5*time.Second)} {
		if got.Duration().Abs() > 1100*time.Millisecond {
			t.Errorf("%s is off by %s", what, got)
		}
	}
	r := l.running()
	r.Lease = Live(500*time.Millisecond, "")
	if o := Observe(r); len(o.Warnings) != 1 || !strings.HasPrefix(o.Warnings[0], "one run in a hundred takes longer than 1s, under a lease of 500ms") {
		t.Errorf("%v", o.Warnings)
	}
	r.LongRuns = true
	if o := Observe(r); len(o.Warnings) != 0 || !o.Load.Heartbeat {
		t.Errorf("%v", o.Warnings)
	}
}
