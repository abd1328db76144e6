package e2e

import (
	"testing"
	"time"
)

// On an idle lane nothing overtakes the rows whose relay was killed between claim and
// enqueue, and nobody gives them back: the relay that comes after it has to find out by
// itself that their messages never were. They are settled within their lease, the time
// that the lane may stand still, and five seconds.
func TestIdleLaneWhoseRelayWasKilled(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := newShop(t, lease, always(200))
	start(t, testappBin, s.args("worker")...)
	start(t, testappBin, s.args("fire", "-orders", "1")...).succeed()

	killed := start(t, testappBin, s.args("relay", "-at", "claimed:1=kill")...)
	killed.wait(patience)
	if !killed.killed() {
		t.Fatal("the relay was not killed")
	}
	if n := s.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'claimed'`); n != 2 {
		t.Fatalf("%d rows are claimed, want both", n)
	}
	start(t, testappBin, s.args("relay")...)
	await(t, patience, "both deliveries are settled", func() (bool, string) { return s.allSucceeded(2) })
	late := s.count(`SELECT count(*) FROM waybill.delivery d WHERE settled_at > due_at + interval '11 seconds'`)
	if late > 0 {
		t.Errorf("%d deliveries took longer than two leases and five seconds", late)
	}
	s.none("a delivery that was not run exactly once", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
}
