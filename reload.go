package waybill

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Clone returns another registry with the same declarations: a beginning for those
// that Replace will put in their place. What is declared in one of the two later is
// not in the other.
func (r *Registry) Clone() *Registry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return &Registry{
		types: maps.Clone(r.types), named: maps.Clone(r.named), receivers: maps.Clone(r.receivers), order: slices.Clone(r.order),
		lanes: maps.Clone(r.lanes), errs: slices.Clone(r.errs),
	}
}

// Replace puts the declarations of another registry, all of them, in the place of this
// one's, at one moment: events, receivers, lanes and their order. Steps read
// declarations as they are taken, so the stores, relays and workers of this registry
// go by the new ones from their next claim, take or fire on, without a restart. A step
// that is under way may have read some of the old ones.
//
// A run that has begun ends as it began: with the function, the timeout and the backoff
// of the receiver that it was taken for. What is owed to a receiver that is gone stays
// owed, as after a deploy: workers give its rows back, and the default lane's relay
// orphans them after its OrphanAfter. A receiver in another lane takes what it is owed
// along.
//
// What relays and workers are made of stays: which lanes they serve, their queues and
// pools. Whoever replaces declarations refuses before what those cannot follow, such as
// a lane that no relay serves yet.
//
// A registry with mistakes (see Err) is refused and changes nothing. What is declared in
// with after Replace is not in this registry.
func (r *Registry) Replace(with *Registry) error {
	if with == nil {
		return errors.New("replace declarations: the registry is nil")
	}
	// The copy is made before this registry is locked: two that replace each other
	// would else wait for each other.
	next := with.Clone()
	if err := next.Err(); err != nil {
		return fmt.Errorf("replace declarations: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types, r.named, r.receivers, r.order, r.lanes, r.errs = next.types, next.named, next.receivers, next.order, next.lanes, nil
	return nil
}
