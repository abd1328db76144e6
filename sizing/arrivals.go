package sizing

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// arrivalParts is how many parts a time is looked at in, if enough rows arrived in it
// that each has partRows of them on average.
const (
	arrivalParts = 10
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
	parts := max(1, min(arrivalParts, len(due)/partRows))
	counts := make([]int, parts)
	for _, at := range due {
		counts[min(parts-1, int(int64(at-from)*int64(parts)/int64(to-from)))]++
	}
	slices.Sort(counts)
	median := float64(counts[parts/2]+counts[(parts-1)/2]) / 2
	return median / (period{from, to}.length() / time.Duration(parts)).Seconds()
}
