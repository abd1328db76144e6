package window

import "time"

// A look reads rows by primary key, which is not free where they are many: a relay
// looks at 2,000 rows a second, and 4 times a second where they are that many. Few
// rows are looked at more often, so that a small window grows in no time.
const (
	shortestGap = 25 * time.Millisecond
	longestGap  = 250 * time.Millisecond
	rowGap      = time.Second / 2000
)

// LookGap is the shortest time between two looks, for a relay that has so many rows
// to look at.
func LookGap(rows int) time.Duration {
	return min(max(shortestGap, time.Duration(rows)*rowGap), longestGap)
}

// lookIn is when to look again at the latest: within a poll, and long before the rows
// that wait are all taken; at once where they are.
func (r Rules) lookIn(starved bool) time.Duration {
	if starved {
		return min(r.Poll, shortestGap)
	}
	return min(r.Poll, max(shortestGap, r.Target/4))
}
