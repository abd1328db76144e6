package metrics

import (
	"time"

	"github.com/waybill-go/waybill"
)

// labels returns what the rows of a receiver are counted under, and its lease, zero
// if it is not declared: then whatever key the row has, it makes no new series.
func labels(registry *waybill.Registry, key string) (lane, receiver string, lease time.Duration) {
	if known, ok := registry.Receiver(key); ok {
		return known.Lane, key, known.Lease
	}
	return waybill.DefaultLane, Undeclared, 0
}
