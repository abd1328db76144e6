package waybilltest

import (
	"context"
	"testing"
)

// Firer is a Store that fires by itself. Both stores do.
type Firer interface {
	FireAlone(ctx context.Context, events ...any) (ids []int64, err error)
}

// Fire fires events in a transaction of their own, in the place of the change that
// fires them in the application, and returns their ids in order.
func Fire(t testing.TB, store Firer, events ...any) []int64 {
	t.Helper()
	ids, err := store.FireAlone(t.Context(), events...)
	if err != nil {
		t.Fatalf("fire: %v", err)
	}
	return ids
}
