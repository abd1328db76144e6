package sizing

import (
	"testing"

	"github.com/waybill-go/waybill"
)

// A burst is no rate, and rows before and after the time do not count.
func TestSteadyArrivals(t *testing.T) {
	t.Parallel()
	var rows []waybill.HistoryRow
	due := func(n int, from, gap float64) {
		for i := range n {
			rows = append(rows, waybill.HistoryRow{DueAt: at(from + float64(i)*gap)})
		}
	}
	due(5000, 0, 0.01)     // before
	due(1000, 100.05, 0.1) // 10 a second, for 100 s
	near(t, "arrivals", steadyArrivals(rows, at(100), at(200)), 10, 0.02)
	due(28_000, 150, 0.0005)
	near(t, "arrivals beside a burst", steadyArrivals(rows, at(100), at(200)), 10, 0.02)
	due(5000, 300, 0.01)
	near(t, "arrivals beside others", steadyArrivals(rows, at(100), at(200)), 10, 0.02)
	rows = nil
	due(57, 199, 0)
	if got := steadyArrivals(rows, at(100), at(200)); got != 0 {
		t.Errorf("a small burst is %g/s", got)
	}
	rows = nil
	due(19, 101, 5)
	near(t, "few arrivals", steadyArrivals(rows, at(100), at(200)), 0.19, 0.001)
	if got := steadyArrivals(rows, at(100), at(100)); got != 0 {
		t.Errorf("arrivals in no time are %g/s", got)
	}
}
