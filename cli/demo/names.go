package demo

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/waybill-go/waybill"
)

// names are what a run calls all that it makes on servers, so that it meets nothing
// of the team's own, nor of another run.
type names struct{ suffix string }

func newNames() names {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails: it ends the process instead
	return names{hex.EncodeToString(random)}
}

// lane is where most receivers are.
func (n names) lane() string { return "demo-" + n.suffix }

// slowLane is where leases lapse.
func (n names) slowLane() string { return n.lane() + "-slow" }

func (n names) lanes() []string { return []string{n.lane(), n.slowLane()} }

func (n names) queues() []string {
	return []string{waybill.QueueName(n.lane()), waybill.QueueName(n.slowLane())}
}

// schema holds the outbox on PostgreSQL.
func (n names) schema() string { return "waybill_demo_" + n.suffix }

// riverSchema holds River's tables on PostgreSQL.
func (n names) riverSchema() string { return n.schema() + "_river" }
