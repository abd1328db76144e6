package sizing

import (
	"time"

	"github.com/waybill-go/waybill"
)

// Stamp is what a claim stamps on the rows of one receiver.
type Stamp struct {
	Need     Seconds `json:"lease_seconds"`   // the receiver's own lease
	Stamped  Seconds `json:"stamped_seconds"` // what the claim of its lane stamps
	Extended bool    `json:"extended"`        // a write sets it to the receiver's before the hand-off
	Holds    Seconds `json:"holds_seconds"`   // the lease that its message has, from then on
}

// Stamps returns what a claim of a lane stamps, given the standard lease and the
// leases of the lane's receivers, one line for each of them. A lane of which nothing
// is known is one of no receivers, and gets one line for the standard lease.
func Stamps(standard time.Duration, needs ...time.Duration) ([]Stamp, error) {
	for _, lease := range append([]time.Duration{standard}, needs...) {
		if lease <= 0 || lease > longest {
			return nil, refuse(ErrInvalid, "give a lease of more than 0 and at most a hundred years", "lease is %s", lease)
		}
	}
	stamped := waybill.StampedLease(standard, needs)
	if len(needs) == 0 {
		needs = []time.Duration{standard}
	}
	stamps := make([]Stamp, len(needs))
	for i, need := range needs {
		stamps[i] = Stamp{Need: Seconds(need), Stamped: Seconds(stamped), Holds: Seconds(stamped)}
		if waybill.NeedsExtension(stamped, need) {
			stamps[i].Extended, stamps[i].Holds = true, Seconds(need)
		}
	}
	return stamps, nil
}
