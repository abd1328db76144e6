package metrics

import (
	"time"

	"github.com/waybill-go/waybill"
)

// labels returns what the rows of a receiver are counted under, and the lease under
// which they wait in a queue, zero if it is not declared: then whatever key the row
// has, it makes no new series.
func labels(registry *waybill.Registry, key string) (lane, receiver string, handOff time.Duration) {
	if known, ok := registry.Receiver(key); ok {
		return known.Lane, key, registry.HandOffLease(known)
	}
	return waybill.DefaultLane, Undeclared, 0
}
