// Package traps keeps docs/traps.md true: what went wrong with outboxes of this
// kind elsewhere, and the test that shows, for each, that it does not go wrong
// here.
//
// Beside the test of the list there are those that belong to no package alone:
// whole deliveries, from fire to acknowledgement, on each of the stores.
//
// There is nothing here but tests.
package traps
