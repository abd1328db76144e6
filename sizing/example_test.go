package sizing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/sizing"
)

// How long a lease has to be for a burst of 28,000 rows on 20 workers that need a
// second for each.
func ExampleSize() {
	answer, err := sizing.Size(sizing.Load{
		Ahead:   sizing.Typed(28_000),
		Workers: sizing.Typed(20),
		Service: sizing.Typed(time.Second),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ahead ÷ drain:   ", answer.MinLease)
	fmt.Println("99 of 100 bursts:", answer.Wait.Duration().Round(time.Second))
	fmt.Println("lease to declare:", answer.Lease)
	for _, warning := range answer.Warnings {
		fmt.Println("warning:", warning)
	}
	// Output:
	// ahead ÷ drain:    23m20s
	// 99 of 100 bursts: 26m18s
	// lease to declare: 26m30s
	// warning: a claim stamps at most 5m30s: each row costs a fourth write, which gives it its 26m30s at the hand-off
}

// What a lease is good for that is there already, where a stale copy costs as much as a
// run: a rate limit counts every message.
func ExampleSize_judge() {
	answer, err := sizing.Size(sizing.Load{
		Ahead:      sizing.Live(28_000, "waiting 27,800 and due 200"),
		Drain:      sizing.Live(20.0, "settled rows, busy minutes"),
		Samples:    sizing.Live(5_000, "the last hour"),
		Workers:    sizing.Live(20, "consumers of the queue"),
		Lease:      sizing.Typed(15 * time.Minute),
		StaleShare: sizing.Typed(1.0),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("rows that fit:     ", answer.MaxBacklog)
	fmt.Println("workers that do:   ", answer.WorkersNeeded)
	fmt.Println("stale copies, about", answer.StaleCopies)
	fmt.Println("collapses from     ", answer.CollapseBacklog)
	fmt.Println("lease that does:   ", answer.Lease)
	// Output:
	// rows that fit:      17082
	// workers that do:    33
	// stale copies, about 12000
	// collapses from      36000
	// lease that does:    24m30s
}

// A question without an answer says what is wrong and what to do.
func ExampleRefusal() {
	_, err := sizing.Size(sizing.Load{
		Ahead: sizing.Typed(0), Workers: sizing.Typed(20), Service: sizing.Typed(time.Second), Arrivals: sizing.Typed(22.0),
	})
	fmt.Println(errors.Is(err, sizing.ErrArrivals))
	fmt.Println(err)
	// Output:
	// true
	// arrivals of 22/s are not below the drain of 20/s: the queue grows without end; no lease is long enough: give at least 25 workers
}

// At a second a row, seven rows of a 60-second lease need no write to extend it.
func ExampleBatches() {
	batch, err := sizing.Batches(time.Minute, time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(batch.InsideLease, batch.WithoutExtension, batch.Recommended)
	// Output: 66 7 5
}

// What a claim stamps on the rows of a lane whose receivers need different leases.
func ExampleStamps() {
	stamps, err := sizing.Stamps(5*time.Minute, time.Minute, 5*time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, stamp := range stamps {
		fmt.Printf("needs %s, stamped %s, extended %t, so its message has %s\n", stamp.Need, stamp.Stamped, stamp.Extended, stamp.Holds)
	}
	// Output:
	// needs 1m0s, stamped 5m30s, extended true, so its message has 1m0s
	// needs 5m0s, stamped 5m30s, extended false, so its message has 5m30s
}

// Leases side by side, for a burst whose stale copies cost a full slot.
func ExampleCompare() {
	burst := sizing.Burst{Rows: 28_000, Drain: 20, StaleShare: 1}
	rows, err := sizing.Compare(burst, 10*time.Minute, 15*time.Minute, 20*time.Minute, 1400*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range rows {
		stale := fmt.Sprintf("%d stale copies", row.StaleCopies)
		if !row.Converges {
			stale = "does not converge"
		}
		fmt.Printf("%s: %s; a lost broker costs %s\n", row.Lease, stale, row.Cost.LostBrokerWait)
	}
	// Output:
	// 10m0s: does not converge; a lost broker costs 10m0s
	// 15m0s: 12000 stale copies; a lost broker costs 15m0s
	// 20m0s: 4000 stale copies; a lost broker costs 20m0s
	// 23m20s: 0 stale copies; a lost broker costs 23m20s
}

// The same burst event by event: under the lease of the report, and with a window.
func ExampleSimulate() {
	for _, window := range []sizing.Window{sizing.WindowOff, sizing.WindowAuto} {
		result, err := sizing.Simulate(sizing.Simulation{
			Scenario: sizing.ScenarioIncident, Window: window, StaleShare: sizing.Typed(1.0),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("window %s: %d stale copies, queue %d deep, done after %s\n",
			window, result.StaleCopies, result.DeepestQueue, result.Finish.Duration().Round(time.Minute))
	}
	// Output:
	// window off: 12000 stale copies, queue 28000 deep, done after 33m0s
	// window auto: 0 stale copies, queue 200 deep, done after 23m0s
}

// Past the collapse a simulation says so, and stops.
func ExampleSimulate_collapse() {
	result, err := sizing.Simulate(sizing.Simulation{
		Scenario: sizing.ScenarioIncident, Rows: sizing.Typed(36_500), StaleShare: sizing.Typed(1.0),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("converges:", result.Converges)
	fmt.Println(result.Stopped)
	// Output:
	// converges: false
	// collapsed: 18500 rows are left, and in three leases workers reached 54001 messages, every one stale
}

// An answer in JSON: durations are seconds, and every figure has its source.
func ExampleInputs() {
	result, err := sizing.Simulate(sizing.Simulation{
		Replay: []time.Duration{0, time.Second, 2 * time.Second}, Workers: sizing.Live(5, "consumers"), Service: sizing.Typed(time.Second),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := json.MarshalIndent(result.Inputs[:3], "", "  ")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(text))
	// Output:
	// {
	//   "workers": {
	//     "value": 5,
	//     "source": "live",
	//     "note": "consumers"
	//   },
	//   "drain_per_second": {
	//     "value": 5,
	//     "source": "default",
	//     "note": "workers ÷ service"
	//   },
	//   "service_seconds": {
	//     "value": 1,
	//     "source": "typed"
	//   }
	// }
}
