package waybill

import "context"

type storeKey struct{}

// WithStore returns a context whose StoreFrom is that store. Workers put theirs into
// the context of each run.
func WithStore(ctx context.Context, store Store) context.Context {
	return context.WithValue(ctx, storeKey{}, store)
}

// StoreFrom returns the store that the run under ctx is of, nil outside a run. A
// receiver that fires has it as what it is by postgres.StoreFrom or sqlite.StoreFrom.
func StoreFrom(ctx context.Context) Store {
	store, _ := ctx.Value(storeKey{}).(Store)
	return store
}
