package waybill

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Decode reads a delivery's payload as T. Where the registry declares T with a newer
// version than the payload's, it is upgraded first. Its error is Permanent: a payload
// that does not decode today will not decode at the next attempt.
func Decode[T any](reg *Registry, d *Delivery) (T, error) {
	event, err := decode[T](reg, d.Event.Version, d.Event.Name, d.Event.Payload)
	if err != nil {
		return event, Permanent(err)
	}
	return event, nil
}

// decode reads the payload of an event that was recorded in that version.
func decode[T any](reg *Registry, version int, name string, payload json.RawMessage) (event T, err error) {
	reg.mu.RLock()
	declared, ok := reg.types[reflect.TypeFor[T]()]
	reg.mu.RUnlock()
	if ok && declared.upgrade != nil && version < declared.version {
		// A copy: an upgrade may write in it, and the payload is shared, or yet to be recorded.
		if payload, err = declared.upgrade(slices.Clone(payload), version); err == nil && len(payload) == 0 {
			err = errors.New("the upgrade returned no payload")
		}
		if err != nil {
			return event, fmt.Errorf("upgrade payload of %s from version %d to %d: %w", name, version, declared.version, err)
		}
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return event, fmt.Errorf("decode payload of %s as %T: %w", name, event, err)
	}
	return event, nil
}

// Refuses says why this process cannot run the receiver on the event, empty if it can:
// another release may have renamed the event, or recorded it in a version that is newer
// than the one whose type it is given. It is no fault of the event's: a worker gives the row back
// for one that can.
func (r *Registry) Refuses(receiver *Receiver, event *Event) string {
	if !receiver.Accepts(event.Name) {
		return "receiver is not declared for the event: renamed?"
	}
	if !receiver.decodes { // it gets the payload as it is, with its version
		return ""
	}
	if declared, ok := r.declaration(event.Name); ok && event.Version > declared.version {
		return fmt.Sprintf("event is of version %d, newer than the declared %d: fired by a later release?", event.Version, declared.version)
	}
	return ""
}
