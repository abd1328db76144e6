package waybilltest

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Running says what a Run is of, beside the receiver and the event. The zero Running
// is the first attempt of a delivery without a target.
type Running struct {
	// Tx is the transaction that a transactional receiver works in. The test begins
	// and ends it.
	Tx any
	// Target is that of a fan-out's delivery.
	Target string
	// Attempt counts from 1. Defaults to 1.
	Attempt int
}

// Run runs one receiver once on an event, which is encoded and decoded as on its way
// through a database, and returns the receiver's outcome: nil, or its error, which
// may be waybill.RetryAfter, Defer or Permanent. A panic is an error with its stack.
// No database is needed, unless a transactional receiver's, whose transaction is in
// Running; nothing is acknowledged.
//
// The event may be all that can be fired. The run has a context as in a worker, with
// its delivery and logger, and ends with the receiver's timeout or lease.
func Run(t testing.TB, reg *waybill.Registry, key string, event any, running ...Running) error {
	t.Helper()
	of := Running{Attempt: 1}
	switch len(running) {
	case 0:
	case 1:
		of = running[0]
	default:
		t.Fatalf("run %s: there is one run, and %d say what it is of", key, len(running))
	}
	if err := reg.Err(); err != nil {
		t.Fatalf("run %s: %v", key, err)
	}
	receiver, ok := reg.Receiver(key)
	if !ok {
		t.Fatalf("run %s: there is no such receiver; declared: %v", key, waybill.Keys(reg.Receivers()))
	}
	if receiver.Transactional() && of.Tx == nil {
		t.Fatalf("run %s: the receiver works in a %s: give it one in Running.Tx", key, receiver.TxKind)
	}
	// Suppressed: to whom it would be owed is no matter here.
	plan, err := reg.Plan(waybill.Suppress(t.Context(), "a receiver's test"), of.Tx, event)
	if err != nil {
		t.Fatalf("run %s: %v", key, err)
	}
	delivery := deliveryOf(receiver, plan.Event, of)
	if why := reg.Refuses(receiver, delivery.Event); why != "" {
		t.Fatalf("run %s on %s: %s", key, delivery.Event.Name, why)
	}
	limit := receiver.Timeout
	if limit == 0 {
		limit = receiver.Lease
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, waybill.ErrTimeout)
	defer cancel()
	return receiver.Call(waybill.WithLogger(ctx, newLogger(t)), of.Tx, delivery)
}

// deliveryOf is the delivery as a worker would have taken it.
func deliveryOf(receiver *waybill.Receiver, event waybill.PlannedEvent, of Running) *waybill.Delivery {
	now := time.Now().UTC().Truncate(time.Microsecond)
	occurred := event.OccurredAt
	if occurred.IsZero() {
		occurred = now
	}
	correlation := event.CorrelationID
	if correlation == "" {
		correlation = "1"
	}
	attempt := max(of.Attempt, 1)
	return &waybill.Delivery{
		ID: 1, Receiver: receiver.Key, Target: of.Target,
		Event: &waybill.Event{
			ID: 1, Name: event.Name, Version: event.Version, Payload: event.Payload, Headers: event.Headers,
			RecordedAt: now, OccurredAt: occurred, CorrelationID: correlation, CausationID: event.CausationID,
		},
		Attempt: attempt, MaxAttempts: receiver.MaxAttempts, Start: attempt,
		DueAt: now, HandedOffAt: now, Claim: waybill.Claim{By: "test", At: waybill.StampOf(now)}, Lease: receiver.Lease,
	}
}
