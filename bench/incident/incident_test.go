package main

import (
	"testing"
	"time"
)

// small is the incident in a few seconds: 480 of 700 rows fit into a lease. Runs are
// long, so that what a busy machine adds to each does not decide the drain.
func small(fault string) incident {
	return incident{
		Backend: "asynq", Fault: fault, Rows: 700, Lease: 3 * time.Second, Rate: 160, Slots: 16, Outage: time.Second,
		Poll: 50 * time.Millisecond, Horizon: 500 * time.Millisecond, Margin: 250 * time.Millisecond,
	}
}

// mustPlay returns the ledger of a burst whose every row was settled once, by one
// attempt: there is no ledger of another one.
func mustPlay(t *testing.T, i incident, window bool) ledger {
	t.Helper()
	c := config{incident: i, servers: environment(), window: "both"}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	l, err := play(t.Context(), c.servers, i, window)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("window %s: drain %.1f/s, done after %s of %s, %d in the queue at the most, %d stale copies %v, predicted %+v, %.2f writes and %.2f claims a row",
		onOff(window), l.Drain, l.Finish, l.Ideal, l.DeepestQueue, l.Stale, l.Refused, l.Predicted, l.Writes, l.Claims)
	return l
}

// The incident happens on real parts, about as often as is predicted by what was
// measured in it.
func TestIncidentWithoutAWindow(t *testing.T) {
	t.Parallel()
	l := mustPlay(t, small(faultNone), false)
	if l.DeepestQueue < l.Rows/2 {
		t.Errorf("%d messages in the queue at the most, want most of %d", l.DeepestQueue, l.Rows)
	}
	if l.Stale == 0 || l.Claims <= 1 {
		t.Errorf("%d stale copies and %.2f claims a row: the lease held", l.Stale, l.Claims)
	}
	// The drain of a machine that is busy is not even: the bounds of a run of minutes
	// are kept by the soak test.
	if l.Stale < l.Predicted.StaleCopies/2 || l.Stale > 2*l.Predicted.StaleCopies {
		t.Errorf("%d stale copies, predicted %d", l.Stale, l.Predicted.StaleCopies)
	}
}

// With the window it does not happen.
func TestNoIncidentWithTheWindow(t *testing.T) {
	t.Parallel()
	l := mustPlay(t, small(faultNone), true)
	if l.Stale > 0 || l.Claims != 1 || l.Repeated > 0 {
		t.Errorf("%d stale copies %v, %.2f claims a row, %d runs begun again", l.Stale, l.Refused, l.Claims, l.Repeated)
	}
	if l.DeepestQueue > l.Rows/3 {
		t.Errorf("%d messages in the queue, of %d rows", l.DeepestQueue, l.Rows)
	}
}

// Whoever is killed and whatever is lost, every row is settled, and hardly a copy is
// stale.
func TestFaultsMakeNoIncident(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{faultWorkers, faultFlush} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			i := small(fault)
			i.Rows = 400
			l := mustPlay(t, i, true)
			if l.Stale > staleByFault {
				t.Errorf("%d stale copies: %v", l.Stale, l.Refused)
			}
			if l.Claims <= 1 {
				t.Errorf("%.2f claims a row: the fault cost nothing, so there was none", l.Claims)
			}
		})
	}
}
