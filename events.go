package waybill

import "context"

// EventReader is a Store that can be asked what was fired: by tests, and by people.
type EventReader interface {
	// Events returns the events of a name, in the order of their ids: the order in
	// which they were fired, but for transactions that ran at the same time. No index
	// serves it; it reads the table of events, in that order, for as long as it has to.
	Events(ctx context.Context, request EventsRequest) ([]*Event, error)
}

// EventsRequest names the events to read.
type EventsRequest struct {
	Name  string // empty: of any name
	After int64  // only events with a greater id
	Limit int    // at most so many; it must be positive
}

// Hastener is a Store that can have failed rows not wait out their backoffs.
type Hastener interface {
	// Hasten makes the rows due at once that are failed and not yet due: the named
	// ones or, with nil, all but those that have spent no attempt, which were deferred
	// and nothing else. It returns how many. It spends nothing, and leaves claimed and
	// pending rows, scheduled ones among them, alone.
	Hasten(ctx context.Context, deliveries []int64) (int, error)
}
