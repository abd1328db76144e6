//go:build soak

package outages

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// The same with 10,000 deliveries in each fault, the default lease, and a server
// that is gone for half a minute.
//
// What was lost waits for its lease, and for a poll that finds it lapsed and
// another that is under way; a queue that was down is tried again within a backoff
// step. The rest is the time that the deliveries themselves take.
var long = trial{
	deliveries: 10_000, lease: waybill.DefaultLease, outage: 30 * time.Second,
	recovery: waybill.DefaultLease + 2*poll + 15*time.Second + 30*time.Second,
}

func TestSoakBackends(t *testing.T) {
	for name, make := range map[string]func(*testing.T) *bed{
		"asynq":                    onAsynq,
		"river, the same database": onRiverShared,
		"river, another database":  onRiverApart,
		"rabbitmq, quorum queue":   onOwnRabbitMQ("quorum"),
		"rabbitmq, classic queue":  onOwnRabbitMQ("classic"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it is leases that are waited for
			long.through(t, make(t))
		})
		t.Run(name+", without a window", func(t *testing.T) {
			t.Parallel()
			long.deep().through(t, make(t))
		})
	}
}
