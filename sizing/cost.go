package sizing

import (
	"time"

	"github.com/waybill-go/waybill"
)

// Cost is what a lease costs.
type Cost struct {
	// WritesPerRow is claim, take and ack; the extension where the claim does not
	// stamp the lease itself; and the same claim and extension again for each stale
	// copy. The take that it fails writes nothing.
	WritesPerRow float64 `json:"writes_per_row"`
	// DeadWorkerWait is how long a row waits at most after its worker died, and
	// LostBrokerWait after its message was lost.
	DeadWorkerWait Seconds `json:"dead_worker_wait_seconds"`
	LostBrokerWait Seconds `json:"lost_broker_wait_seconds"`
	// Uncancellable is how many rows at a time are claimed already, and so beyond
	// `cancel`, when all that is ahead is in the queue.
	Uncancellable int `json:"uncancellable_rows"`
}

// costs counts them. What a claim stamps may be a tenth more than the lease, and a
// message that is lost waits for that.
func costs(standard, lease time.Duration, rows, stale int) Cost {
	held, claims := handOff(standard, lease)
	cost := Cost{
		WritesPerRow: float64(claims) + 2, DeadWorkerWait: Seconds(lease), LostBrokerWait: Seconds(held),
		Uncancellable: rows,
	}
	if rows > 0 {
		cost.WritesPerRow += float64(claims) * float64(stale) / float64(rows)
	}
	return cost
}

// handOff returns the lease that a message has when it is handed off, and how many
// writes that took: the claim, and an extension.
func handOff(standard, lease time.Duration) (held time.Duration, writes int) {
	stamped := waybill.StampedLease(standard, []time.Duration{lease})
	if waybill.NeedsExtension(stamped, lease) {
		return lease, 2
	}
	return stamped, 1
}

// TradeOff is one lease among several.
type TradeOff struct {
	Lease Seconds `json:"lease_seconds"`
	// Holds is how many rows start within it: lease × drain, with nothing to spare.
	Holds int `json:"holds_rows"`
	Prediction
	Cost Cost `json:"cost"`
}

// Compare lays leases side by side for one burst: a longer one makes fewer stale
// copies, and a dead worker or a lost broker dearer. The burst's own lease does not
// count.
func Compare(b Burst, leases ...time.Duration) ([]TradeOff, error) {
	rows := make([]TradeOff, len(leases))
	for i, lease := range leases {
		b.Lease = lease
		p, err := Predict(b)
		if err != nil {
			return nil, err
		}
		rows[i] = TradeOff{
			Lease: Seconds(lease), Holds: int(min(lease.Seconds()*b.Drain, 1e15)), Prediction: p,
			Cost: costs(waybill.DefaultLease, lease, b.Rows, p.StaleCopies),
		}
	}
	return rows, nil
}
