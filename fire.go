package waybill

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Plan is what firing one event makes owed: the event row and a delivery row for
// each receiver and target. A store writes it in the caller's transaction.
type Plan struct {
	Event      PlannedEvent
	Deliveries []PlannedDelivery
}

// PlannedEvent is one event row to be. Its id and the time of its record are the
// store's.
type PlannedEvent struct {
	RawEvent
	DedupeKey     string
	OccurredAt    time.Time // zero: when it is recorded
	CorrelationID string    // empty: the event begins a chain, and its own id stands for it
	CausationID   int64     // the event whose receiver fired it; 0 outside a receiver
	Suppressed    string    // why nobody is owed it; empty if somebody may be
	Retention     Retention
}

// PlannedDelivery is one delivery row to be.
type PlannedDelivery struct {
	Receiver    string
	Target      string
	MaxAttempts int
	DueAt       time.Time // when it is due; zero, or past, is at once
}

// TargetDigest is the fixed-size stand-in for a target in the unique key of a
// delivery: targets are of any length, index entries are not.
func TargetDigest(target string) [32]byte { return sha256.Sum256([]byte(target)) }

// Plan resolves a fired value: a declared type, a pointer to one, a RawEvent, or an
// Envelope with one of them. tx is the firing transaction, for targets and due times
// that read in it. Nothing is written; an error means the fire fails and with it the
// caller's change.
func (r *Registry) Plan(ctx context.Context, tx any, event any) (Plan, error) {
	event, envelope, err := open(event)
	if err != nil {
		return Plan{}, err
	}
	raw, err := r.encode(event)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Event: PlannedEvent{RawEvent: raw}}
	if declared, ok := r.declaration(raw.Name); ok {
		plan.Event.Retention = declared.retention
	}
	causedBy(ctx, &plan.Event)
	if err := envelope.address(&plan.Event); err != nil {
		return Plan{}, err
	}
	if plan.Event.Suppressed, err = suppressed(ctx); err != nil {
		return Plan{}, fmt.Errorf("fire %s: %w", raw.Name, err)
	}
	if plan.Event.Suppressed != "" {
		return plan, nil
	}
	firing := firing{registry: r, tx: tx, event: event, raw: plan.Event.RawEvent}
	for _, receiver := range r.Receivers() {
		if !receiver.Accepts(raw.Name) {
			continue
		}
		owed, err := firing.owed(ctx, receiver)
		if err != nil {
			return Plan{}, fmt.Errorf("fire %s: %w", raw.Name, err)
		}
		plan.Deliveries = append(plan.Deliveries, owed...)
	}
	return plan, nil
}

// firing is what targets and due times are worked out of.
type firing struct {
	registry *Registry
	tx       any
	event    any // as it was fired
	raw      RawEvent
}

// owed returns the rows of one receiver.
func (f firing) owed(ctx context.Context, receiver *Receiver) ([]PlannedDelivery, error) {
	targets := []string{""}
	if receiver.Targets != nil {
		var err error
		if targets, err = receiver.targets(ctx, f); err != nil {
			return nil, fmt.Errorf("targets of receiver %q: %w", receiver.Key, err)
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	var due time.Time
	if receiver.Due != nil {
		var err error
		if due, err = receiver.Due.resolve(ctx, f); err != nil {
			return nil, fmt.Errorf("due time of receiver %q: %w", receiver.Key, err)
		}
	}
	deliveries := make([]PlannedDelivery, len(targets))
	for i, target := range targets {
		deliveries[i] = PlannedDelivery{Receiver: receiver.Key, Target: target, MaxAttempts: receiver.MaxAttempts, DueAt: due}
	}
	return deliveries, nil
}
