package waybill

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// BacklogReader is a queue that can say how much is in it.
type BacklogReader interface {
	// Backlog asks the queue what is in it. An error says that it could not be
	// asked; it returns by ctx's deadline.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog is what a queue says of itself at one moment. What it cannot say, or not
// for certain, is unknown, and never a false zero: what is handed off and not yet
// taken can then be read off the rows.
type Backlog struct {
	// Ready is how many messages wait for a consumer.
	Ready Reading[int64]
	// Running is how many messages consumers hold.
	Running Reading[int64]
	// Oldest is how long the oldest of those that wait has waited; zero if none
	// does.
	Oldest Reading[time.Duration]
	// Consumers is how many messages can be held by consumers at the same time:
	// the slots of all workers on this queue.
	Consumers Reading[int64]
}

// Reading is a figure, or unknown, which is its zero value.
type Reading[T any] struct {
	value T
	known bool
}

// Known returns a figure that is known.
func Known[T any](value T) Reading[T] { return Reading[T]{value, true} }

// Value returns the figure, and whether it is known.
func (r Reading[T]) Value() (T, bool) { return r.value, r.known }

func (r Reading[T]) String() string {
	if !r.known {
		return "unknown"
	}
	return fmt.Sprint(r.value)
}

// MarshalJSON writes null for what is unknown.
func (r Reading[T]) MarshalJSON() ([]byte, error) {
	if !r.known {
		return []byte("null"), nil
	}
	return json.Marshal(r.value)
}
