// Package window decides how many rows a relay may have out in a queue, and which
// of those whose lease lapsed there it may claim again. It only decides: it has no
// clock, no store and no queue. The simulator of package sizing runs on it, and a
// relay can.
//
// Two rules keep a queue from outgrowing its lease:
//
//   - the window: rows that wait in the queue never exceed what the workers start
//     within a target time (10 s), at the drain measured from settled rows, nor half
//     of what they start within a lease. The backlog waits in the database;
//   - the frontier: a lapsed row that nobody took is claimed again only if a later
//     hand-off was already taken, so that its own message must be gone. Until then
//     that message can still take it, and a second one would be a stale copy.
//
// Moments are durations since any origin, always the same one, read from a clock
// that does not step back. Every pass of a relay goes like this:
//
//	decision := w.Look(now, look)          // what became of the rows handed off
//	n := min(batch, decision.Claim)        // lapsed rows for which Reclaim says yes, then due rows
//	w.Claimed(n, got)
//	if decision.Probe { … w.Probed(now) }  // a lane that stands still: one row, once a gap
//	// and again within decision.LookIn
//
// A Window belongs to one relay and one queue. Several relays need no word with each
// other: each measures its own share of the drain, and shares add up. A restarted
// relay begins with a new one. The rules only ever take claims away, so whatever is
// safe without them is safe with them.
package window
