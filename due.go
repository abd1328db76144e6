package waybill

import (
	"context"
	"reflect"
	"time"
)

// DueTime says when a scheduled receiver's deliveries are due: a reminder three days after
// the order, say. They are written when the event is fired, with everything else, and
// wait in the database until then; no message is sent before.
type DueTime struct {
	of      reflect.Type
	resolve func(ctx context.Context, f firing) (time.Time, error)
}

// DueOf makes a DueTime of a function on the fired event. It runs inside the firing
// transaction; its error fails the fire. The zero time, and one that is past, is at
// once. The time is judged by the database's clock.
func DueOf[T any](due func(ctx context.Context, event T) (time.Time, error)) *DueTime {
	return DueOfTx(func(ctx context.Context, _ any, event T) (time.Time, error) { return due(ctx, event) })
}

// DueOfTx is DueOf for a function that reads in the firing transaction, of type Tx as
// in TargetsOfTx.
func DueOfTx[Tx, T any](due func(ctx context.Context, tx Tx, event T) (time.Time, error)) *DueTime {
	resolve := inFiring(due)
	return &DueTime{of: reflect.TypeFor[T](), resolve: func(ctx context.Context, f firing) (time.Time, error) {
		at, err := resolve(ctx, f)
		if err != nil {
			return time.Time{}, err
		}
		return moment(at)
	}}
}
