package waybill

import (
	"fmt"
	"time"
)

// Retention is for how long an event stays with its deliveries, at the least. The zero
// Retention says nothing, and leaves it to the ordinary window. It is frozen into the
// event's row when it is fired: a later declaration does not rewrite what was promised.
//
// Nothing that is owed is ever deleted, whatever it says. This release deletes nothing
// else either: the row keeps the promise for the prune that will.
type Retention struct {
	// Keep is a length of its own, from when the event was recorded: whole seconds, from
	// one to 68 years.
	Keep time.Duration
	// Consumed lets the event go once its deliveries are done, instead of after a time.
	Consumed Consumption
}

// Consumption is when an event counts as consumed.
type Consumption string

const (
	// OnceSucceeded is when every delivery has succeeded. A dead one keeps the event.
	OnceSucceeded Consumption = "succeeded"
	// OnceSettled is when no delivery is owed any more, however each ended.
	OnceSettled Consumption = "settled"
)

// longestRetention is what a column of 32 bits holds, in whole seconds: 68 years.
const longestRetention = (1<<31 - 1) * time.Second

func (r Retention) validate() error {
	switch {
	case r.Keep != 0 && r.Consumed != "":
		return fmt.Errorf("retention: it is kept for %s or until it is consumed, not both", r.Keep)
	case r.Keep < 0 || r.Keep > longestRetention || r.Keep%time.Second != 0:
		return fmt.Errorf("retention %s: want whole seconds, from 1s to %s", r.Keep, longestRetention)
	case r.Consumed != "" && r.Consumed != OnceSucceeded && r.Consumed != OnceSettled:
		return fmt.Errorf("retention: consumed %q is neither %q nor %q", string(r.Consumed), OnceSucceeded, OnceSettled)
	}
	return nil
}
