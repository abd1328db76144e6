package waybill

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
)

// Plan is what firing one event makes owed: the event row and a delivery row for
// each receiver and target. A store writes it in the caller's transaction.
type Plan struct {
	Event      RawEvent
	Deliveries []PlannedDelivery
}

// PlannedDelivery is one delivery row to be.
type PlannedDelivery struct {
	Receiver    string
	Target      string
	MaxAttempts int
}

// TargetDigest is the fixed-size stand-in for a target in the unique key of a
// delivery: targets are of any length, index entries are not.
func TargetDigest(target string) [32]byte { return sha256.Sum256([]byte(target)) }

// Targets resolves the destinations of a fan-out receiver.
type Targets struct {
	of      reflect.Type
	resolve func(ctx context.Context, tx any, event any, raw RawEvent) ([]string, error)
}

// TargetsOf makes Targets of a function on the fired event. It runs inside the
// firing transaction; its error fails the fire, and no target at all is fine.
func TargetsOf[T any](targets func(ctx context.Context, event T) ([]string, error)) *Targets {
	return TargetsOfTx(func(ctx context.Context, _ any, event T) ([]string, error) { return targets(ctx, event) })
}

// TargetsOfTx is TargetsOf for a function that reads in the firing transaction.
func TargetsOfTx[T any](targets func(ctx context.Context, tx any, event T) ([]string, error)) *Targets {
	return &Targets{of: reflect.TypeFor[T](), resolve: func(ctx context.Context, tx any, event any, raw RawEvent) ([]string, error) {
		if recorded, ok := any(raw).(T); ok { // a fan-out over events of any type
			return targets(ctx, tx, recorded)
		}
		switch fired := event.(type) {
		case T:
			return targets(ctx, tx, fired)
		case *T:
			return targets(ctx, tx, *fired)
		}
		var decoded T
		if err := json.Unmarshal(raw.Payload, &decoded); err != nil {
			return nil, fmt.Errorf("decode payload as %T: %w", decoded, err)
		}
		return targets(ctx, tx, decoded)
	}}
}

// Plan resolves a fired value: a declared type, a pointer to one, or a RawEvent.
// tx is the firing transaction, for targets that read in it. Nothing is written;
// an error means the fire fails and with it the caller's change.
func (r *Registry) Plan(ctx context.Context, tx any, event any) (Plan, error) {
	raw, err := r.encode(event)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Event: raw}
	for _, receiver := range r.Receivers() {
		if !receiver.Accepts(raw.Name) {
			continue
		}
		targets := []string{""}
		if receiver.Targets != nil {
			if targets, err = receiver.targets(ctx, tx, event, raw); err != nil {
				return Plan{}, fmt.Errorf("fire %s: targets of receiver %q: %w", raw.Name, receiver.Key, err)
			}
		}
		for _, target := range targets {
			plan.Deliveries = append(plan.Deliveries, PlannedDelivery{
				Receiver: receiver.Key, Target: target, MaxAttempts: receiver.MaxAttempts,
			})
		}
	}
	return plan, nil
}

// targets returns each distinct target once, in the order they were given.
func (r *Receiver) targets(ctx context.Context, tx any, event any, raw RawEvent) ([]string, error) {
	all, err := r.Targets.resolve(ctx, tx, event, raw)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(all))
	distinct := all[:0:0]
	for _, target := range all {
		if target == "" || !storable(target) {
			return nil, fmt.Errorf("target %q is empty, not UTF-8 or has a NUL", target)
		}
		if !seen[target] {
			seen[target] = true
			distinct = append(distinct, target)
		}
	}
	return distinct, nil
}
