package waybill

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// maxNameLength bounds event names and receiver keys, in bytes.
const maxNameLength = 255

// EventOptions says how an event type is recorded, and how what was recorded earlier is
// read.
type EventOptions struct {
	// Version of the payload, recorded with each event. Defaults to 1.
	Version int
	// Upgrade turns the payload of an older version into one of Version, wherever an
	// event is decoded: what is recorded never changes. from is the version it was
	// recorded in. Its error makes a delivery dead, as a payload that does not decode
	// does. Defaults to none: an older payload is decoded as it is.
	Upgrade func(payload json.RawMessage, from int) (json.RawMessage, error)
	// Retention is copied to each event when it is fired. Defaults to none of its own.
	Retention Retention
}

// RawEvent is an event whose payload is JSON already, fired by name and without
// a declared Go type. A name that nobody receives is recorded, and owed to nobody.
type RawEvent struct {
	Name    string
	Version int             // Defaults to 1.
	Payload json.RawMessage // kept byte for byte
	Headers map[string]string
}

// eventType is what Declare recorded of a Go type.
type eventType struct {
	name      string
	version   int
	upgrade   func(payload json.RawMessage, from int) (json.RawMessage, error)
	retention Retention
}

// same reports whether two declarations say the same. Functions cannot be compared:
// one that is there stands for any other.
func (e eventType) same(other eventType) bool {
	return e.name == other.name && e.version == other.version && e.retention == other.retention &&
		(e.upgrade == nil) == (other.upgrade == nil)
}

// Declare registers the Go type T as the event of that name. The name is what is
// stored, so T may be renamed freely; T is encoded with encoding/json. What is
// wrong with a declaration is told by Registry.Err.
func Declare[T any](reg *Registry, name string, opts EventOptions) {
	reg.declare(reflect.TypeFor[T](), name, opts)
}

func (r *Registry) declare(t reflect.Type, name string, opts EventOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	declared := eventType{name: name, version: max(opts.Version, 1), upgrade: opts.Upgrade, retention: opts.Retention}
	if err := validateEvent(t, name, opts); err != nil {
		r.fail(fmt.Errorf("declare %s: %w", t, err))
		return
	}
	for other, had := range r.types {
		switch {
		case other == t && had.same(declared):
			return // the same declaration twice is one
		case other == t:
			r.fail(fmt.Errorf("declare %s as %q: it is declared as %q already, with other options", t, name, had.name))
			return
		case had.name == name:
			r.fail(fmt.Errorf("declare %s as %q: %s has that name already", t, name, other))
			return
		}
	}
	r.types[t], r.named[name] = declared, declared
}

func validateEvent(t reflect.Type, name string, opts EventOptions) error {
	if err := validateName("event name", name); err != nil {
		return err
	}
	switch {
	case name == AnyEvent:
		return fmt.Errorf("%q stands for every event and cannot name one", name)
	case t.Kind() == reflect.Pointer:
		return fmt.Errorf("it is a pointer: declare %s, and fire either", t.Elem())
	case t.Kind() == reflect.Interface:
		return errors.New("it is an interface, and no value that is fired is of its type")
	case t == reflect.TypeFor[RawEvent](), t == reflect.TypeFor[Envelope]():
		return errors.New("it says which event it is by itself: fire it without declaring it")
	case opts.Version < 0:
		return fmt.Errorf("version %d is negative", opts.Version)
	case opts.Version > math.MaxInt32:
		return fmt.Errorf("version %d is above %d", opts.Version, math.MaxInt32)
	case opts.Upgrade != nil && opts.Version < 2:
		return errors.New("it upgrades, and there is no version before 1: give it a version")
	}
	return opts.Retention.validate()
}

// declaration returns what is declared under a name, if a Go type has it.
func (r *Registry) declaration(name string) (eventType, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	declared, ok := r.named[name]
	return declared, ok
}

// encode turns a fired value into its recorded form. A pointer fires what it
// points to.
func (r *Registry) encode(event any) (RawEvent, error) {
	switch raw := event.(type) {
	case RawEvent:
		return raw.checked()
	case *RawEvent:
		if raw != nil {
			return raw.checked()
		}
	case nil:
		return RawEvent{}, errors.New("fire: the event is nil")
	}
	value := reflect.ValueOf(event)
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return RawEvent{}, fmt.Errorf("fire: the event is a nil %T", event)
		}
		value = value.Elem()
	}
	r.mu.RLock()
	declared, ok := r.types[value.Type()]
	r.mu.RUnlock()
	if !ok {
		return RawEvent{}, fmt.Errorf("fire: %s is not a declared event; call waybill.Declare[%s](registry, name, waybill.EventOptions{}) first",
			value.Type(), value.Type().Name())
	}
	if !value.CanAddr() { // or a MarshalJSON on the pointer would be passed over
		addressed := reflect.New(value.Type()).Elem()
		addressed.Set(value)
		value = addressed
	}
	payload, err := json.Marshal(value.Addr().Interface())
	if err != nil {
		return RawEvent{}, fmt.Errorf("fire %s: encode payload: %w", declared.name, err)
	}
	if !utf8.Valid(payload) { // the encoder passes on what a MarshalJSON returned
		return RawEvent{}, fmt.Errorf("fire %s: the payload of %s is not UTF-8", declared.name, value.Type())
	}
	return RawEvent{Name: declared.name, Version: declared.version, Payload: payload}, nil
}

// checked refuses what a store could not keep, before anything is written.
func (e RawEvent) checked() (RawEvent, error) {
	if err := validateName("event name", e.Name); err != nil {
		return e, fmt.Errorf("fire: %w", err)
	}
	if e.Name == AnyEvent {
		return e, fmt.Errorf("fire: %q stands for every event and cannot name one", e.Name)
	}
	if e.Version < 0 || e.Version > math.MaxInt32 {
		return e, fmt.Errorf("fire %s: version %d is not between 1 and %d", e.Name, e.Version, math.MaxInt32)
	}
	e.Version = max(e.Version, 1)
	if !utf8.Valid(e.Payload) {
		return e, fmt.Errorf("fire %s: the payload is not UTF-8", e.Name)
	}
	var probe json.RawMessage
	if err := json.Unmarshal(e.Payload, &probe); err != nil {
		return e, fmt.Errorf("fire %s: the payload is not JSON: %w", e.Name, err)
	}
	return e, checkHeaders(e.Name, e.Headers)
}

func checkHeaders(name string, headers map[string]string) error {
	for key, value := range headers {
		if !storable(key) || !storable(value) {
			return fmt.Errorf("fire %s: header %q holds text that is not UTF-8 or has a NUL", name, key)
		}
	}
	return nil
}

// DecodeHeaders reads headers as a store keeps them: a JSON object. What is no text
// in it, written there by somebody else's hand, is read as its JSON: a header
// must never be what keeps a delivery from running.
func DecodeHeaders(stored []byte) map[string]string {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(stored, &values); err != nil || len(values) == 0 {
		return nil
	}
	headers := make(map[string]string, len(values))
	for key, value := range values {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			text = string(value)
		}
		headers[key] = text
	}
	return headers
}

func validateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty", what)
	case len(name) > maxNameLength:
		return fmt.Errorf("the %s has %d bytes, more than %d: %.40q…", what, len(name), maxNameLength, name)
	case !storable(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("the %s %q holds control characters or is not UTF-8", what, name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("the %s %q begins or ends with white space", what, name)
	}
	return nil
}

// storable reports whether every store can keep the text.
func storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// NameOf returns the name that T is declared by, false if it is not declared.
func NameOf[T any](reg *Registry) (name string, declared bool) {
	reg.mu.RLock()
	defer reg.mu.RUnlock()
	found, declared := reg.types[reflect.TypeFor[T]()]
	return found.name, declared
}
