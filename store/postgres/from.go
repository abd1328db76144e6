package postgres

import (
	"context"

	"github.com/waybill-go/waybill"
)

// StoreFrom returns the store that the run under ctx is of, nil outside a run and in
// one of another kind of store. It is how a receiver fires that was declared before
// its store was opened, or runs in a program of package cli, which opens it:
//
//	_, err := postgres.StoreFrom(ctx).Fire(ctx, tx, OrderShipped{ID: order.ID})
func StoreFrom(ctx context.Context) *Store {
	if store, ok := waybill.StoreFrom(ctx).(interface{ self() *Store }); ok {
		return store.self()
	}
	return nil
}

// self is the store itself, also of what wraps it by embedding.
func (s *Store) self() *Store { return s }
