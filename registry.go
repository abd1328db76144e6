package waybill

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Registry holds what a process declares: its events, its receivers and its lanes.
// Nothing of it is stored in the database, so moving a receiver to another lane
// moves what it is owed. It is safe for use by many goroutines.
type Registry struct {
	mu        sync.RWMutex
	types     map[reflect.Type]eventType
	named     map[string]eventType // the same, by name
	receivers map[string]*Receiver
	order     []*Receiver // in order of declaration
	lanes     map[string]LaneOptions
	errs      []error
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{types: map[reflect.Type]eventType{}, named: map[string]eventType{}, receivers: map[string]*Receiver{}, lanes: map[string]LaneOptions{}}
}

// Err returns everything that is wrong with the declarations so far, or nil.
// Stores, relays and workers refuse a registry that has an error when they are made;
// they do not look again.
func (r *Registry) Err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return errors.Join(r.errs...)
}

func (r *Registry) fail(err error) { r.errs = append(r.errs, err) }

// Add registers a receiver, with defaults for what it leaves out: one whose function
// takes the Delivery with the payload as it is, as those of httpreceiver and
// execreceiver do.
func (r *Registry) Add(receiver Receiver) {
	done := receiver.withDefaults()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := done.validate(); err != nil {
		r.fail(fmt.Errorf("receiver %q: %w", done.Key, err))
		return
	}
	if _, ok := r.receivers[done.Key]; ok {
		r.fail(fmt.Errorf("receiver %q: that key is declared already; every receiver needs its own", done.Key))
		return
	}
	r.receivers[done.Key] = done
	r.order = append(r.order, done)
}

// addTyped registers a receiver of a declared Go type.
func (r *Registry) addTyped(t reflect.Type, receiver Receiver) {
	r.mu.Lock()
	declared, ok := r.types[t]
	if !ok {
		hint := fmt.Sprintf("call waybill.Declare[%s] first", t.Name())
		if t.Kind() == reflect.Pointer {
			hint = fmt.Sprintf("receive a %s", t.Elem())
		}
		r.fail(fmt.Errorf("receiver %q: %s is not a declared event; %s", receiver.Key, t, hint))
	} else if receiver.Targets != nil && receiver.Targets.of != t {
		ok = false
		r.fail(fmt.Errorf("receiver %q: its targets take a %s, the receiver a %s", receiver.Key, receiver.Targets.of, t))
	} else if receiver.Due != nil && receiver.Due.of != t {
		ok = false
		r.fail(fmt.Errorf("receiver %q: its due time takes a %s, the receiver a %s", receiver.Key, receiver.Due.of, t))
	}
	r.mu.Unlock()
	if ok {
		receiver.Event, receiver.decodes = declared.name, true
		r.Add(receiver)
	}
}

// Receiver returns the receiver with that key.
func (r *Registry) Receiver(key string) (*Receiver, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	receiver, ok := r.receivers[key]
	return receiver, ok
}

// Receivers returns all receivers in order of declaration.
func (r *Registry) Receivers() []*Receiver {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.order)
}

// Lanes returns every lane that a receiver names or AddLane declared, sorted. The
// default lane always exists.
func (r *Registry) Lanes() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	lanes := map[string]bool{DefaultLane: true}
	for _, receiver := range r.order {
		lanes[receiver.Lane] = true
	}
	for lane := range r.lanes {
		lanes[lane] = true
	}
	return slices.Sorted(maps.Keys(lanes))
}

// CheckLane refuses a lane that nobody declared: a relay for a misspelt lane
// would claim nothing, for ever, and look healthy.
func (r *Registry) CheckLane(lane string) error {
	if lanes := r.Lanes(); !slices.Contains(lanes, lane) {
		return fmt.Errorf("unknown lane %q; declared: %s", lane, strings.Join(lanes, ", "))
	}
	return nil
}

// LaneReceivers returns the receivers declared in the lane, sorted by key.
func (r *Registry) LaneReceivers(lane string) []*Receiver {
	return r.sorted(func(receiver *Receiver) bool { return receiver.Lane == lane })
}

// NamedKeys returns the keys of all receivers in lanes other than the default
// one, sorted. The default lane is everything but these, whether declared or not,
// so that no row is without a lane.
func (r *Registry) NamedKeys() []string {
	return Keys(r.sorted(func(receiver *Receiver) bool { return receiver.Lane != DefaultLane }))
}

func (r *Registry) sorted(keep func(*Receiver) bool) []*Receiver {
	kept := slices.DeleteFunc(r.Receivers(), func(receiver *Receiver) bool { return !keep(receiver) })
	slices.SortFunc(kept, func(a, b *Receiver) int { return cmp.Compare(a.Key, b.Key) })
	return kept
}

// Keys returns the receivers' keys, in their order.
func Keys(receivers []*Receiver) []string {
	keys := make([]string, len(receivers))
	for i, receiver := range receivers {
		keys[i] = receiver.Key
	}
	return keys
}

// Leases returns each receiver's own lease and its lane, sorted by key: what a take
// stamps, and what may forbid it.
func (r *Registry) Leases() []ReceiverLease {
	receivers := r.sorted(func(*Receiver) bool { return true })
	leases := make([]ReceiverLease, len(receivers))
	for i, receiver := range receivers {
		leases[i] = ReceiverLease{Receiver: receiver.Key, Lane: receiver.Lane, Lease: receiver.Lease}
	}
	return leases
}

// ReceiverLease is the lease that a receiver's runs hold, and the lane whose pause
// stops them; no pause stops those without one.
type ReceiverLease struct {
	Receiver string
	Lane     string
	Lease    time.Duration
}
