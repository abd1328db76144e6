package sizing

import (
	"cmp"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// arrival is how long a message may take to reach an idle worker: a row that waited
// no longer tells nothing of a queue.
const arrival = 50 * time.Millisecond

// shortestBusy is the least time in which settled rows are counted: a queue that a
// worker looks into once a second is not empty for nearly as long, and idle.
const shortestBusy = 1500 * time.Millisecond

// period is a time, from its beginning to its end.
type period struct{ from, to waybill.Stamp }

func (p period) length() time.Duration { return time.Duration(p.to-p.from) * time.Microsecond }

// waits returns the times in which at least one row was handed off and not yet taken:
// those in which the queue never ran empty. Rows that still wait do until now, unless
// the queue itself says that it is empty: then their messages are lost.
func waits(rows []waybill.HistoryRow, now waybill.Stamp, empty bool) []period {
	var all []period
	for _, row := range rows {
		wait := period{row.HandedOffAt.Add(arrival), row.TakenAt}
		if row.TakenAt == 0 && row.Status == waybill.Claimed && !empty {
			wait.to = now
		}
		if row.HandedOffAt != 0 && wait.to > wait.from {
			all = append(all, wait)
		}
	}
	slices.SortFunc(all, func(a, b period) int { return cmp.Compare(a.from, b.from) })
	joined := all[:0]
	for _, wait := range all {
		if n := len(joined); n > 0 && wait.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, wait.to)
		} else {
			joined = append(joined, wait)
		}
	}
	return joined
}

// busy is how long workers had work, and how many rows they settled in that time.
type busy struct {
	time time.Duration
	rows int
}

// busyTimes counts what was settled while the queue never ran empty, after since. The
// first two runs' time of each such period is left out: workers that were idle settle
// nothing until the first of their runs is over.
func busyTimes(waits []period, settled []waybill.Stamp, since waybill.Stamp, run time.Duration) busy {
	var all busy
	for _, wait := range waits {
		counted := period{max(wait.from, since).Add(2 * run), wait.to}
		if counted.to <= counted.from || counted.length() < max(shortestBusy, 2*run) {
			continue
		}
		all.time += counted.length()
		all.rows += upTo(settled, counted.to) - upTo(settled, counted.from)
	}
	return all
}

// upTo is how many of the sorted moments are not after the given one.
func upTo(sorted []waybill.Stamp, moment waybill.Stamp) int {
	n, _ := slices.BinarySearch(sorted, moment+1)
	return n
}
