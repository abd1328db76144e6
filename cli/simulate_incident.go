package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/sizing"
)

// reportedCase is one reading of the incident's figures.
type reportedCase struct {
	Drain      float64 `json:"drain_per_second"`
	StaleShare float64 `json:"stale_share"`
	// Stale is what was simulated, in whole messages; Predicted is the sum.
	Stale        int            `json:"stale_copies"`
	Predicted    int            `json:"predicted_stale_copies"`
	Finish       sizing.Seconds `json:"finish_seconds"`
	DeepestQueue int            `json:"deepest_queue"`
	LongestWait  sizing.Seconds `json:"longest_wait_seconds"`
	WritesPerRow float64        `json:"writes_per_row"`
	Converges    bool           `json:"converges"`
}

// isReported reports whether the incident was asked for as it was reported, with not a
// figure changed.
func (q *simulateQuestion) isReported(cmd *cobra.Command) bool {
	as := q.simulation.Scenario == sizing.ScenarioIncident
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		as = as && (flag.Name == "scenario" || flag.Name == "json" || flag.Name == "seed" || cmd.InheritedFlags().Lookup(flag.Name) != nil)
	})
	return as
}

// reportedCases are the readings: what a stale copy costs was not reported, and decides
// between 10,000 and 12,000. The number of copies that was reported takes a drain that
// is a little less, too.
func reportedCases() ([]reportedCase, error) {
	cases := []reportedCase{{Drain: 20, StaleShare: 0}, {Drain: 20, StaleShare: 1}, {Drain: 19.745, StaleShare: 1}}
	for i := range cases {
		c := &cases[i]
		result, err := sizing.Simulate(sizing.Simulation{
			Scenario: sizing.ScenarioIncident, Drain: sizing.Typed(c.Drain), StaleShare: sizing.Typed(c.StaleShare),
		})
		if err != nil {
			return nil, err
		}
		c.Stale, c.Predicted, c.Finish, c.Converges = result.StaleCopies, result.Predicted.StaleCopies, result.Finish, result.Converges
		c.DeepestQueue, c.LongestWait, c.WritesPerRow = result.DeepestQueue, result.LongestWait, result.WritesPerRow
	}
	return cases, nil
}

func writeReported(w io.Writer, cases []reportedCase) {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "RATE\tA STALE COPY COSTS\tSTALE COPIES\tWORKED OUT\tALL DONE\tDEEPEST QUEUE\tLONGEST WAIT\tWRITES A ROW\t\n")
	for _, c := range cases {
		cost := "nothing"
		if c.StaleShare == 1 {
			cost = "a full slot"
		}
		fmt.Fprintf(table, "%s/s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", rate(c.Drain), cost, count(c.Stale), count(c.Predicted),
			seconds(c.Finish.Duration().Round(1e9).Seconds()), count(c.DeepestQueue), seconds(c.LongestWait.Duration().Round(1e9).Seconds()), plot.Number(c.WritesPerRow))
	}
	// A tabwriter on a strings.Builder never fails.
	_ = table.Flush()
	first, second, last := cases[0], cases[1], cases[2]
	fmt.Fprintf(w, `
The figures of the report give %s to %s stale copies, by what a stale copy costs.
The %s that were reported come out exactly at %s/s and a full slot: a fit, and no measurement.
28,000 rows, 900s and 20/s were reported; a relay that sends at once and even runs are assumed.
`, count(first.Predicted), count(second.Predicted), count(last.Predicted), rate(last.Drain))
}

// rate writes rows a second to a thousandth.
func rate(value float64) string { return fmt.Sprintf("%g", value) }
