package waybill

import "fmt"

// CancelRequest names deliveries to withdraw before they run: those of the events,
// narrowed by what else is set. At least one of Events and Deliveries is required. An
// application that may cancel keeps the id that Fire returned beside its own row.
//
// A list that is empty and not nil names nothing. Ids that are not there count nothing.
type CancelRequest struct {
	// Events narrows to deliveries of these events. Nil is of any event.
	Events []int64
	// Receiver narrows to one receiver's. Empty is any receiver's.
	Receiver string
	// Deliveries narrows to these deliveries. Nil is any of the events'.
	Deliveries []int64
}

// Validate refuses a request that names nothing: it would mean everything.
func (r CancelRequest) Validate() error { return namesSome("cancel", r.Events, r.Deliveries) }

func namesSome(what string, events, deliveries []int64) error {
	if events == nil && deliveries == nil {
		return fmt.Errorf("%s: name the events, or the deliveries, to %[1]s", what)
	}
	return nil
}

// CancelResult is what became of the deliveries that were named and still owed.
type CancelResult struct {
	// Cancelled deliveries are settled: no relay claims them, and a message of them that
	// is still about is refused.
	Cancelled int
	// InFlight ones are claimed: they are in a queue, or run, and are left to it. A
	// receiver that must not act on what was withdrawn has to look for itself.
	InFlight int
}

// ReopenRequest names settled deliveries that are to be owed again, at once and with
// all their attempts: as a CancelRequest names those to withdraw. Ids of deliveries
// are Delivery.ID, or read from the delivery table.
type ReopenRequest struct {
	Events     []int64
	Receiver   string
	Deliveries []int64
}

// Validate refuses a request that names nothing: it would mean everything.
func (r ReopenRequest) Validate() error { return namesSome("reopen", r.Events, r.Deliveries) }
