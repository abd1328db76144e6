package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/sizing"
)

// simulateReport is what a simulation came to.
type simulateReport struct {
	sizing.Result
	// Reported are the readings of the incident, where it was asked for as it was
	// reported.
	Reported []reportedCase `json:"reported,omitempty"`
}

// collapsed tells a queue that never gets done from one whose end was not waited for.
func (r *simulateReport) collapsed() bool { return strings.HasPrefix(r.Stopped, "collapsed") }

func (r *simulateReport) input(name string) float64 {
	input, _ := r.Inputs.Get(name)
	return input.Value
}

// writeText writes what came of it, the figures it rests on, and what there is to
// watch out for.
func (r *simulateReport) writeText(w io.Writer) error {
	var text strings.Builder
	scenario := string(r.Scenario)
	if _, replayed := r.Inputs.Get("replayed_rows"); replayed {
		scenario += ", arrivals replayed"
	}
	fmt.Fprintf(&text, "%s: %s rows at %s a second, a lease of %s, window %s\n", scenario, count(r.Rows),
		plot.Number(r.input("drain_per_second")), inSeconds(time.Duration(math.Round(r.input("lease_seconds")*1e9))), r.Window)
	switch {
	case r.Reported != nil:
		writeReported(&text, r.Reported)
	case !r.Converges:
		done := "Not done"
		if r.collapsed() {
			done = "Never done"
		}
		fmt.Fprintf(&text, "%s: %s.\n", done, r.Stopped)
		fmt.Fprintf(&text, "Stopped after %s: %s of %s rows settled, %s stale copies, the queue %s deep.\n",
			rounded(r.Finish), count(r.Settled), count(r.Rows), count(r.StaleCopies), count(r.DeepestQueue))
	default:
		r.writeResult(&text)
	}
	if r.Reported == nil {
		text.WriteByte('\n')
		writeInputs(&text, r.Inputs, func(string) bool { return false })
		for _, warning := range r.Warnings {
			if r.Stopped != "" && strings.Contains(warning, r.Stopped) {
				continue
			}
			fmt.Fprintf(&text, "warning: %s\n", warning)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (r *simulateReport) writeResult(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	stale := count(r.StaleCopies)
	if r.Predicted != nil {
		stale += fmt.Sprintf(" (worked out: %s)", count(r.Predicted.StaleCopies))
	}
	fmt.Fprintf(table, "  stale copies\t%s\n  all done after\t%s\n  deepest queue\t%s messages\n  longest wait\t%s\n  writes a row\t%s\n",
		stale, rounded(r.Finish), count(r.DeepestQueue), rounded(r.LongestWait), plot.Number(r.WritesPerRow))
	if r.Hit > 0 {
		fmt.Fprintf(table, "  rows hit\t%s, the last of them done %s after it went wrong\n", count(r.Hit), rounded(r.Recovery))
	}
	// A tabwriter on a strings.Builder never fails.
	_ = table.Flush()
}

// rounded writes a time in whole seconds, a short one in tenths.
func rounded(s sizing.Seconds) string {
	if d := s.Duration(); d < 10*time.Second {
		return seconds(math.Round(d.Seconds()*10) / 10)
	}
	return inSeconds(s.Duration().Round(time.Second))
}
