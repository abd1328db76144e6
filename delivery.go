package waybill

import (
	"context"
	"time"
)

// Status is the state of a delivery row.
type Status string

// Owed statuses come first, settled ones after. A settled row changes only when it is
// reopened.
const (
	Pending   Status = "pending"   // waits for its due time or for a relay
	Claimed   Status = "claimed"   // held under a claim: in a queue, or running
	Failed    Status = "failed"    // waits out the backoff after a failed attempt
	Succeeded Status = "succeeded" // the receiver returned nil
	Dead      Status = "dead"      // out of attempts, or failed for good
	Orphaned  Status = "orphaned"  // its receiver is no longer declared
	Cancelled Status = "cancelled" // withdrawn before it ran
)

// Owed reports whether the delivery has yet to be settled.
func (s Status) Owed() bool { return s == Pending || s == Claimed || s == Failed }

// Event is the fact that was fired, as it was recorded.
type Event struct {
	ID         int64
	Name       string
	Version    int
	Payload    []byte            // JSON, byte for byte as it was fired
	Headers    map[string]string // set by the one who fired; may be nil
	RecordedAt time.Time         // the database's clock
	OccurredAt time.Time         // when it happened, as the one who fired says; else RecordedAt

	// CorrelationID is the same for all that came of one beginning: what it was given
	// there, else the id of the first event. It is never empty on an event that a store
	// returned.
	CorrelationID string
	// CausationID is the event whose receiver fired this one, 0 if none did. It may have
	// been deleted since.
	CausationID int64
}

// Delivery is one event owed to one receiver (and, for a fan-out, one target),
// as the run of it sees it.
type Delivery struct {
	// ID is the same for every attempt of this delivery and differs between any
	// two deliveries: the idempotency key for whatever the receiver calls.
	ID       int64
	Event    *Event // shared between the deliveries of one event: do not change it
	Receiver string
	Target   string // empty unless the receiver declares targets

	Attempt     int // 1 for the first run; a run that recorded no outcome does not count
	MaxAttempts int // frozen when the event was fired
	Start       int // how many runs were begun, this one included

	DueAt       time.Time     // when the delivery became owed; a backoff never moves it
	HandedOffAt time.Time     // when the relay claimed it for the queue; zero for an eager run, which went through none
	Claim       Claim         // the claim this run holds
	Lease       time.Duration // for how long the take stamped it; a heartbeat makes it as long again
}

type deliveryKey struct{}

// WithDelivery returns a context that carries the delivery for DeliveryFrom.
func WithDelivery(ctx context.Context, d *Delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// DeliveryFrom returns the delivery whose receiver is running under ctx, or nil
// outside a receiver.
func DeliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}
