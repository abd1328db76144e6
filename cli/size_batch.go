package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/sizing"
)

// isAboutBatch reports whether the question is how many rows of a batch fit a lease: a
// lease and a run, and no backlog, rate or workers.
func (q *sizeQuestion) isAboutBatch() bool {
	l := q.load
	return l.Lease.Given() && l.Service.Given() && !l.Ahead.Given() && !l.Arrivals.Given() && !l.Drain.Given() && !l.Workers.Given()
}

// batchReport has the keys of a sizeReport. What needs a backlog is null.
type batchReport struct {
	MinLease   *int           `json:"min_lease_seconds"`
	Wait       *int           `json:"wait_seconds"`
	Confidence *int           `json:"confidence"`
	Lease      *int           `json:"lease_seconds"`
	Judged     sizing.Seconds `json:"judged_lease_seconds"`
	MaxBacklog *int           `json:"max_backlog"`
	sizing.Batch
	StaleCopies     *int          `json:"stale_copies"`
	StaleAtLowDrain *int          `json:"stale_copies_at_low_drain"`
	Converges       *bool         `json:"converges"`
	CollapseBacklog *int          `json:"collapse_backlog"`
	Cost            *sizing.Cost  `json:"cost"`
	Inputs          sizing.Inputs `json:"inputs"`
	Warnings        []string      `json:"warnings"`
	WorkersNeeded   *int          `json:"workers_needed"`
}

func (q *sizeQuestion) answerBatch(cmd *cobra.Command) error {
	l := q.load
	for _, flag := range []string{"cv", "confidence", "stale-cost", "table", "plot", "check"} {
		if cmd.Flags().Changed(flag) {
			return usagef("--%s needs --backlog: without one the question is how many rows of a batch fit", flag)
		}
	}
	batch, err := sizing.Batches(l.Lease.Value, l.Service.Value)
	if err != nil {
		return refusal(err)
	}
	if q.asJSON {
		return writeJSON(cmd.OutOrStdout(), batchReport{
			Judged: sizing.Seconds(l.Lease.Value), Batch: batch, Warnings: []string{},
			Inputs: sizing.Inputs{
				{Name: "lease_seconds", Value: l.Lease.Value.Seconds(), Source: sizing.FromTyping},
				{Name: "per_row_seconds", Value: l.Service.Value.Seconds(), Source: sizing.FromTyping, Note: "running it"},
			},
		})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `%s rows of a batch start inside a lease of %s, where the relay runs receivers itself, %s each.
%s of them need no write to have their lease extended. Take batches of %s: that leaves room for slower rows.
A relay that hands off to a queue only sends its batch: there its size has nothing to do with how long runs take.

typed    lease %s; run %s
`, plot.Number(float64(batch.InsideLease)), span(l.Lease.Value), span(l.Service.Value),
		plot.Number(float64(batch.WithoutExtension)), plot.Number(float64(batch.Recommended)), span(l.Lease.Value), span(l.Service.Value))
	return err
}
