package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/sizing"
)

// checkPicture refuses a file of a kind that is not drawn.
func checkPicture(path string) error {
	if err := plot.CheckFile(path); err != nil {
		return usagef("--plot %v", err)
	}
	return nil
}

// draw writes the picture of an answer.
func (r *sizeReport) draw(path string) error {
	chart, err := r.chart()
	if err != nil {
		return refusal(err)
	}
	if err := chart.WriteFile(path); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// shortened writes a number of seconds, a small one with a decimal.
func shortened(value float64) string {
	if value < 100 {
		return seconds(math.Floor(value*10) / 10)
	}
	return seconds(math.Floor(value))
}

// steps is how many leases a curve is drawn by.
const steps = 400

// chart shows, over the lease, what a row waits for and how many stale copies there
// are, and from where on a queue never gets done.
func (r *sizeReport) chart() (plot.Chart, error) {
	wait, lease := r.Wait.Duration().Seconds(), r.Lease.Duration().Seconds()
	judged := r.judgedLease().Seconds()
	// A lease that is far too long would squeeze all there is to see into a corner.
	most := plot.Limit(1.15*max(lease, min(judged, 3*lease)), 10)
	rows := r.input("ahead_rows")
	chart := plot.Chart{
		Title: fmt.Sprintf("A lease for %s rows at %s a second", plot.Number(rows), plot.Number(r.input("drain_per_second"))),
		Subtitle: fmt.Sprintf("Declare %s. The last row waits up to %s, in %s.",
			inSeconds(r.Lease.Duration()), upTo(r.Wait), r.often("such bursts")),
		XLabel: "lease (seconds)",
		XMax:   most,
	}
	waits := plot.Panel{Label: "Seconds: a lease holds where it is above the wait", Max: plot.Limit(2*wait, 5), Lines: []plot.Line{
		{Name: "the lease", Color: plot.Grey, Points: []plot.Point{{X: 0, Y: 0}, {X: most, Y: most}}},
		{Name: "wait of the last row", Color: plot.Blue, Points: []plot.Point{{X: 0, Y: wait}, {X: most, Y: wait}}},
	}}
	copies := plot.Panel{Label: "Stale copies: rows that were sent again", Max: plot.Limit(1.5*rows, 5)}
	for _, cost := range r.costs() {
		collapse := rows / (r.input("drain_per_second") * (1 + 1/cost.share))
		done, stale, err := r.curves(cost.share, most, collapse)
		if err != nil {
			return chart, err
		}
		waits.Lines = append(waits.Lines, plot.Line{Name: "all done, if one costs " + cost.name, Color: cost.color, Dashed: cost.dashed, Points: done})
		copies.Lines = append(copies.Lines, plot.Line{Name: "if one costs " + cost.name, Color: cost.color, Dashed: cost.dashed, Points: stale})
		if collapse < 0.005*most {
			continue // no line could be told from the axis
		}
		chart.Marks = append(chart.Marks, plot.Mark{
			X: collapse, Color: cost.color, Dashed: true,
			Label: fmt.Sprintf("collapse: up to %s, if a copy costs %s", shortened(collapse), cost.name),
		})
		chart.Shaded = max(chart.Shaded, collapse)
	}
	if r.Verdict != "" {
		mark := plot.Mark{X: min(judged, most), Color: plot.Black, Label: "your lease: " + seconds(judged)}
		if judged > most {
			mark.Label += ", beyond the edge"
		}
		chart.Marks = append(chart.Marks, mark)
	}
	if r.Verdict == "" || r.Lease != r.Judged {
		chart.Marks = append(chart.Marks, plot.Mark{X: lease, Color: plot.Green, Label: "to declare: " + seconds(lease)})
	}
	slices.SortStableFunc(chart.Marks, func(a, b plot.Mark) int { return cmp.Compare(a.X, b.X) })
	chart.Panels = []plot.Panel{waits, copies}
	return chart, nil
}

// costOfCopy is a cost of a stale copy that is drawn.
type costOfCopy struct {
	share  float64
	name   string
	color  string
	dashed bool
}

// costs are a full slot and the cost that the answer is about, which is dashed, so that
// the other is seen where they meet.
func (r *sizeReport) costs() []costOfCopy {
	full := costOfCopy{share: 1, name: "a full slot", color: plot.Red}
	share := r.staleShare()
	if share == 1 {
		return []costOfCopy{full}
	}
	name := span(time.Duration(math.Round(r.input("stale_cost_seconds") * 1e9)))
	if share == 0 {
		name = "nothing"
	}
	return []costOfCopy{full, {share: share, name: name, color: plot.Orange, dashed: true}}
}

// curves are when all is done and how many stale copies there are, by lease. Where
// the queue never gets done is a gap.
func (r *sizeReport) curves(share, most, collapse float64) (done, stale []plot.Point, err error) {
	at := []float64{collapse * (1 + 1e-6)}
	for i := range steps {
		at = append(at, most*float64(i+1)/steps)
	}
	slices.Sort(at)
	burst := r.burst(share)
	for _, lease := range at {
		if burst.Lease = time.Duration(lease * 1e9); burst.Lease <= 0 {
			continue
		}
		p, err := sizing.Predict(burst)
		if err != nil {
			return nil, nil, err
		}
		y, copies := p.Finish.Duration().Seconds(), float64(p.StaleCopies)
		if !p.Converges {
			y, copies = math.NaN(), math.NaN()
		}
		done = append(done, plot.Point{X: lease, Y: y})
		stale = append(stale, plot.Point{X: lease, Y: copies})
	}
	return done, stale, nil
}
