package sizing

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// arrivalParts is in how many parts a time is looked at, or in fewer, of which each has
// about partRows rows on average. Their number is odd, so that one is in the middle.
const (
	arrivalParts = 11
	partRows     = 20
)

// steadyArrivals is how many rows a second became due from one moment to another, all
// the time: the median of the parts of that time. A burst in a few of them is a backlog,
// and no rate.
func steadyArrivals(rows []waybill.HistoryRow, from, to waybill.Stamp) float64 {
	if to <= from {
		return 0
	}
	var due []waybill.Stamp
	for _, row := range rows {
		if row.DueAt > from && row.DueAt <= to {
			due = append(due, row.DueAt)
		}
	}
	parts := min(arrivalParts, len(due)/partRows|1)
	counts := make([]int, parts)
	for _, at := range due {
		counts[min(parts-1, int(int64(at-from)*int64(parts)/int64(to-from)))]++
	}
	slices.Sort(counts)
	return float64(counts[parts/2]) / (period{from, to}.length() / time.Duration(parts)).Seconds()
}
