package waybill

import (
	"context"
	"fmt"
	"reflect"
)

// Targets resolves the destinations of a fan-out receiver.
type Targets struct {
	of      reflect.Type
	resolve func(ctx context.Context, f firing) ([]string, error)
}

// TargetsOf makes Targets of a function on the fired event. It runs inside the
// firing transaction; its error fails the fire, and no target at all is fine.
func TargetsOf[T any](targets func(ctx context.Context, event T) ([]string, error)) *Targets {
	return TargetsOfTx(func(ctx context.Context, _ any, event T) ([]string, error) { return targets(ctx, event) })
}

// TargetsOfTx is TargetsOf for a function that reads in the firing transaction. Tx is
// what the application fires in: pgx.Tx or postgres.DB, *sql.Tx or postgres.SQLTx,
// sqlite.Tx, or a type of its own. To fire in anything else fails.
func TargetsOfTx[Tx, T any](targets func(ctx context.Context, tx Tx, event T) ([]string, error)) *Targets {
	return &Targets{of: reflect.TypeFor[T](), resolve: inFiring(targets)}
}

// targets returns each distinct target once, in the order they were given.
func (r *Receiver) targets(ctx context.Context, f firing) ([]string, error) {
	all, err := r.Targets.resolve(ctx, f)
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

// inFiring has a typed function work on what is being fired.
func inFiring[Tx, T, Out any](f func(ctx context.Context, tx Tx, event T) (Out, error)) func(context.Context, firing) (Out, error) {
	return func(ctx context.Context, fired firing) (out Out, err error) {
		tx, ok := fired.tx.(Tx)
		if !ok && (fired.tx != nil || reflect.TypeFor[Tx]().Kind() != reflect.Interface || reflect.TypeFor[Tx]().NumMethod() > 0) {
			return out, fmt.Errorf("want to read in a %s, and the event is fired in a %T", reflect.TypeFor[Tx](), fired.tx)
		}
		event, err := firedAs[T](fired)
		if err != nil {
			return out, err
		}
		return f(ctx, tx, event)
	}
}

// firedAs is the event that is fired, as it was given or decoded.
func firedAs[T any](f firing) (T, error) {
	if recorded, ok := any(f.raw).(T); ok { // of a receiver of any event
		return recorded, nil
	}
	switch fired := f.event.(type) {
	case T:
		return fired, nil
	case *T:
		return *fired, nil
	}
	return decode[T](f.registry, f.raw.Version, f.raw.Name, f.raw.Payload)
}
