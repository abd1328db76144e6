package sizing_test

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing"
)

// A running lane, measured: its rows tell what the workers settle, and Size what lease the
// burst of tonight needs. Package ops reads the rows from a store.
func ExampleObserve() {
	now := waybill.StampOf(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	running := sizing.Running{
		Lane: "mail", Now: now, Waiting: 40, WaitingSince: now.Add(-10 * time.Second),
		Lease: sizing.Live(time.Minute, "as declared"),
	}
	for i := range 1200 { // a burst: four a second ever since, each 10 s in the queue and 2 s on a worker
		settled := now.Add(-time.Duration(i) * time.Second / 4)
		running.Rows = append(running.Rows, waybill.HistoryRow{
			ID: int64(2000 - i), Status: waybill.Succeeded, DueAt: now.Add(-6 * time.Minute),
			HandedOffAt: settled.Add(-12 * time.Second), TakenAt: settled.Add(-2 * time.Second), SettledAt: settled,
		})
	}

	seen := sizing.Observe(running)
	fmt.Println("problem:", seen.Problem)
	fmt.Printf("settled: %d, %.1f a second while busy\n", seen.Settled, seen.Load.Drain.Value)
	fmt.Println("99 of 100 waited:", seen.WaitP99)

	load := seen.Load
	load.Ahead = sizing.Typed(5_000) // tonight
	answer, err := sizing.Size(load)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("lease to declare:", answer.Lease)
	// Output:
	// problem: <nil>
	// settled: 1200, 4.0 a second while busy
	// 99 of 100 waited: 10s
	// lease to declare: 22m30s
}

// What becomes of a burst under a lease: in numbers, without simulating it.
func ExamplePredict() {
	for _, rows := range []int{10_000, 28_000, 40_000} {
		prediction, err := sizing.Predict(sizing.Burst{Rows: rows, Drain: 20, Lease: 15 * time.Minute, StaleShare: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d rows: %d stale copies, converges: %t\n", rows, prediction.StaleCopies, prediction.Converges)
	}
	// Output:
	// 10000 rows: 0 stale copies, converges: true
	// 28000 rows: 12000 stale copies, converges: true
	// 40000 rows: 22000 stale copies, converges: false
}
