package window

import "time"

// A look reads rows by primary key, which is not free where they are many: a relay
// looks at 500 rows or more 4 times a second, and at fewer more often, so that a small
// window is topped up in no time.
const (
	shortestGap = 25 * time.Millisecond
	rowGap      = time.Second / 2000

	// LongestGap is the shortest time between two looks at many rows, or where nothing
	// happens.
	LongestGap = 250 * time.Millisecond
)

// LookGap is the shortest time between two looks, for a relay that has so many rows
// to look at.
func LookGap(rows int) time.Duration {
	return min(max(shortestGap, time.Duration(rows)*rowGap), LongestGap)
}

// lookIn is when to look again at the latest: within a poll, and long before the rows
// that wait are all taken; at once where they are.
func (r Rules) lookIn(starved bool) time.Duration {
	if starved {
		return min(r.Poll, shortestGap)
	}
	return min(r.Poll, max(shortestGap, r.Target/4))
}
