package fault

import (
	"context"
	"sync"

	"github.com/waybill-go/waybill"
)

// Store passes every call on to another store, and counts it. Each can be made to
// fail, to hang, to lose its answer, or to let something happen in between.
type Store struct {
	Inner

	mu       sync.Mutex
	registry *waybill.Registry
	calls    map[string]int
	hooks    map[string]Hook
}

// Inner is what a Store stands in front of: all that relays and workers call.
type Inner interface {
	waybill.TxStore
	waybill.TxClaimer
}

// Hook stands around each call of a method; either half may be nil.
type Hook struct {
	// Before has the call's context. Its error is the call's, which is not made.
	Before func(ctx context.Context) error
	// After runs when the call has been made; its error replaces the answer.
	After func() error
}

// NewStore returns a Store in front of another.
func NewStore(store Inner) *Store {
	return &Store{
		Inner: store, registry: store.Registry(),
		calls: map[string]int{}, hooks: map[string]Hook{},
	}
}

// On sets the hook around calls of a method, by the method's name. It replaces the
// one before; the zero Hook lets calls pass.
func (s *Store) On(method string, hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[method] = hook
}

// Count returns how often a method was called, by the method's name.
func (s *Store) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// SetRegistry declares other receivers than the rows were fired for, as a
// deployment does that is older or newer.
func (s *Store) SetRegistry(registry *waybill.Registry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registry = registry
}

// enter counts a call and returns its hook, both halves of it callable.
func (s *Store) enter(method string) Hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	hook := s.hooks[method]
	if hook.Before == nil {
		hook.Before = func(context.Context) error { return nil }
	}
	if hook.After == nil {
		hook.After = func() error { return nil }
	}
	return hook
}

func through[T any](ctx context.Context, s *Store, method string, call func() (T, error)) (T, error) {
	hook := s.enter(method)
	var none T
	if err := hook.Before(ctx); err != nil {
		return none, err
	}
	answer, err := call()
	if lost := hook.After(); lost != nil {
		return none, lost
	}
	return answer, err
}

// throughErr is through for a call that answers with nothing but its error.
func throughErr(ctx context.Context, s *Store, method string, call func() error) error {
	_, err := through(ctx, s, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}
