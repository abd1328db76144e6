package relay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

// A row waits in the queue under its lane's hand-off lease, be that longer or shorter
// than its receiver's own, and runs under the latter.
func TestRowWaitsUnderItsLanesLeaseAndRunsUnderItsOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, handOff time.Duration
		extended     bool
	}{
		"longer":                      {5 * time.Second, time.Minute, false},
		"longer than the standard":    {5 * time.Second, 25 * time.Minute, true},
		"shorter":                     {time.Minute, 5 * time.Second, false},
		"shorter than the standard's": {3 * time.Hour, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail", Lease: c.own}, "b": {Lane: "mail", Lease: 2 * c.own}})
			b.reg.AddLane("mail", waybill.LaneOptions{HandOffLease: c.handOff})
			b.fire(2, time.Hour)
			b.claim(2, time.Minute) // they lapse: either way of claiming stamps the lease
			b.store.SetClockOffset(2 * time.Minute)
			r := b.relay(relay.Config{Lane: "mail"})
			once(t, r, 0, 4)
			for _, row := range b.rows() {
				if lease := own(row); !heldBy(row, r) || lease < c.handOff || lease > c.handOff+c.handOff/10 {
					t.Errorf("row %d of %q waits under a lease of %s, want %s or up to a tenth more", row.ID, row.Receiver, lease, c.handOff)
				}
			}
			if got := b.fault.Count("Extend"); (got > 0) != c.extended {
				t.Errorf("%d extensions, want any: %t", got, c.extended)
			}
			answers, err := waybill.Take(t.Context(), b.store, "worker:1:ab", slices.Concat(b.queue.batches...))
			if err != nil || len(answers) != 4 {
				t.Fatalf("take: %d answers, %v; want 4", len(answers), err)
			}
			for _, answer := range answers {
				if answer.Refused != "" {
					t.Errorf("row %d is refused: %s", answer.Message.DeliveryID, answer.Refused)
				}
			}
			for _, row := range b.rows() {
				want := map[string]time.Duration{"a": c.own, "b": 2 * c.own}[row.Receiver]
				if lease := row.Lease.Time().Sub(row.TakenAt.Time()); lease != want {
					t.Errorf("row %d of %q runs under a lease of %s, want %s", row.ID, row.Receiver, lease, want)
				}
			}
		})
	}
}

// Rows of other lanes, and of a lane that is declared without a hand-off lease, wait
// under their receivers' own leases.
func TestHandOffLeaseIsOfItsLaneAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: 10 * time.Second}, "b": {Lane: "bulk", Lease: 20 * time.Second}})
	b.reg.AddLane("mail", waybill.LaneOptions{HandOffLease: time.Hour})
	b.reg.AddLane("bulk", waybill.LaneOptions{})
	b.fire(1, time.Hour)
	for lane, want := range map[string]time.Duration{"default": 10 * time.Second, "bulk": 20 * time.Second} {
		r := b.relay(relay.Config{Lane: lane})
		once(t, r, 0, 1)
		for _, row := range b.rows() {
			if lease := own(row); heldBy(row, r) && (lease < want || lease > want+want/10) {
				t.Errorf("a row of lane %s waits under a lease of %s, want %s", lane, lease, want)
			}
		}
	}
	once(t, b.relay(relay.Config{Lane: "mail"}), 0, 0) // it has no receivers, and claims nothing
}
