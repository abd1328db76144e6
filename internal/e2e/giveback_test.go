package e2e

import (
	"testing"
	"time"
)

// A relay that is told to stop when it has claimed rows and enqueued none of
// them gives those back: the next one has them at once, not after the lease.
func TestRelayToldToStopBetweenClaimAndEnqueueGivesBack(t *testing.T) {
	t.Parallel()
	const orders = 100
	s := newShop(t, time.Minute, always(200))
	start(t, testappBin, s.args("fire", "-orders", "100")...).succeed()

	began := time.Now()
	stopped := start(t, testappBin, s.args("relay", "-batch", "40", "-window-off", "-at", "claimed:3=term")...)
	if code := stopped.wait(patience); code != 0 {
		t.Fatalf("the relay that was told to stop ended with exit code %d", code)
	}
	queued := s.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'claimed' AND lease_expires_at > now()`)
	back := s.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'claimed' AND lease_expires_at <= now() AND handed_off_at IS NULL`)
	untouched := s.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'pending'`)
	if queued != 80 || back != 40 || untouched != 80 {
		t.Errorf("%d rows are in the queue, %d are given back, %d untouched; want 80, 40, 80", queued, back, untouched)
	}

	start(t, testappBin, s.args("relay")...)
	start(t, testappBin, s.args("worker")...)
	await(t, patience, "every delivery is settled", func() (bool, string) { return s.allSucceeded(2 * orders) })
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s: rows have waited for a lease", took)
	}
	s.none("a delivery that was not run exactly once", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
}
