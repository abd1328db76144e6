package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waybill-go/waybill/sizing"
)

// tableRow is one lease, and what it comes to.
type tableRow struct {
	Lease      sizing.Seconds `json:"lease_seconds"`
	Holds      int            `json:"holds_rows"`
	Stale      []staleAt      `json:"stale"`
	DeadWorker sizing.Seconds `json:"dead_worker_wait_seconds"`
	LostBroker sizing.Seconds `json:"lost_broker_wait_seconds"`
	note       string
}

// staleAt is what a burst comes to if a stale copy costs so much of a run.
type staleAt struct {
	Share float64 `json:"stale_share"`
	sizing.Prediction
}

// shares are the costs of a stale copy in a table.
var shares = []float64{0.01, 0.1, 1}

// tableOf lays leases side by side, at several costs of a stale copy and the one that
// was typed.
func tableOf(r *sizeReport) ([]tableRow, error) {
	costs := shares
	if share := r.staleShare(); r.question.staleCost.text != "" && !slices.Contains(costs, share) {
		costs = append([]float64{share}, costs...)
	}
	leases := r.leases()
	rows := make([]tableRow, len(leases))
	for _, share := range costs {
		offs, err := sizing.Compare(r.burst(share), leases...)
		if err != nil {
			return nil, err
		}
		for i, off := range offs {
			rows[i].Lease, rows[i].Holds = off.Lease, off.Holds
			rows[i].DeadWorker, rows[i].LostBroker = off.Cost.DeadWorkerWait, off.Cost.LostBrokerWait
			rows[i].Stale = append(rows[i].Stale, staleAt{share, off.Prediction})
			rows[i].note = r.noteOn(off.Lease)
		}
	}
	return rows, nil
}

func (r *sizeReport) noteOn(lease sizing.Seconds) string {
	switch {
	case r.Verdict != "" && lease == r.Judged:
		return "yours"
	case lease == r.Lease:
		return "to declare"
	case lease == r.MinLease:
		return "backlog ÷ rate"
	}
	return ""
}

func (row tableRow) remark() string {
	if row.note == "" {
		return ""
	}
	return "  " + row.note
}

// ladder are the leases that people write.
var ladder = []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, 45 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// leases are those of the table: some steps below the lease to declare, the rule of
// thumb, the lease to declare and the one that was given.
func (r *sizeReport) leases() []time.Duration {
	below := slices.DeleteFunc(slices.Clone(ladder), func(lease time.Duration) bool { return lease >= r.Lease.Duration() })
	all := append(below[max(0, len(below)-5):], r.Lease.Duration(), r.judgedLease())
	if r.MinLease > 0 {
		all = append(all, r.MinLease.Duration())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// writeTable writes a line a lease. Collapse is at the dearest cost, a full slot.
func writeTable(w io.Writer, rows []tableRow) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "LEASE\tHOLDS\t")
	for _, stale := range rows[0].Stale {
		cost := fmt.Sprintf("%.3g%%", 100*stale.Share)
		if stale.Share == 1 {
			cost = "FULL"
		}
		fmt.Fprintf(table, "STALE AT %s\t", cost)
	}
	fmt.Fprint(table, "COLLAPSES FROM\tDEAD WORKER\tLOST BROKER\t\n")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%s\t", span(row.Lease.Duration()), count(row.Holds))
		for _, stale := range row.Stale {
			text := "never done"
			if stale.Converges {
				text = count(stale.StaleCopies)
			}
			fmt.Fprintf(table, "%s\t", text)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", count(row.Stale[len(row.Stale)-1].CollapseBacklog),
			span(row.DeadWorker.Duration()), span(row.LostBroker.Duration()), row.remark())
	}
	// A tabwriter on a strings.Builder never fails.
	_ = table.Flush()
	fmt.Fprintln(w, strings.TrimSpace(`
HOLDS: rows that start within the lease. STALE: copies, if one costs a worker so much of a run, or a full slot.
COLLAPSES FROM: rows with which it is never done, at a full slot. Then how long a row waits for the lost.`))
}
