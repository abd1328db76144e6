package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/internal/plot"
)

// pictureOf is the file of a variant's picture: that of the plain burst is the one that
// was asked for, and the others are beside it.
func (i incident) pictureOf(path string, several bool) string {
	if !several || i.Backend == "asynq" && i.Fault == faultNone {
		return path
	}
	extension := filepath.Ext(path)
	name := strings.TrimSuffix(path, extension) + "-" + i.Backend
	if i.Fault != faultNone {
		name += "-" + i.Fault
	}
	return name + extension
}

// draw writes the picture of ledgers of the same burst.
func draw(path string, ledgers []ledger) error {
	if err := chartOf(ledgers).WriteFile(path); err != nil {
		return fmt.Errorf("-plot: %w", err)
	}
	return nil
}

// chartOf shows over time how deep the queue was, how many stale copies there had been,
// and how many rows were owed.
func chartOf(ledgers []ledger) plot.Chart {
	i := ledgers[0].incident
	chart := plot.Chart{Title: i.title(), XLabel: "seconds since the first hand-off"}
	depth := plot.Panel{Label: "Messages that wait in the queue", Max: 1}
	stale := plot.Panel{Label: "Stale copies so far", Max: 10}
	owed := plot.Panel{Label: "Rows that are owed", Max: float64(i.Rows)}
	var told []string
	for _, l := range ledgers {
		depth.Lines = append(depth.Lines, l.line(depthOf))
		stale.Lines = append(stale.Lines, l.line(func(s sample) float64 { return float64(s.Stale) }))
		owed.Lines = append(owed.Lines, l.line(func(s sample) float64 { return float64(i.Rows - s.Settled) }))
		depth.Max, stale.Max = max(depth.Max, float64(l.DeepestQueue)), max(stale.Max, float64(l.Stale))
		for _, s := range l.Samples {
			chart.XMax = max(chart.XMax, s.Seconds)
		}
		if l.Fault != faultNone {
			chart.Marks = append(chart.Marks, plot.Mark{X: l.FaultAt.Duration().Seconds(), Color: l.color(), Dashed: true, Label: "the fault, " + l.name()})
		}
		told = append(told, l.told())
	}
	chart.Subtitle = strings.Join(told, " ")
	chart.XMax = plot.Limit(chart.XMax, 10)
	for _, l := range ledgers { // over all of the axis, which is known now
		if l.Predicted != nil {
			copies := float64(l.Predicted.StaleCopies)
			stale.Max = max(stale.Max, copies)
			stale.Lines = append(stale.Lines, plot.Line{Name: "predicted for " + l.name() + ": " + plot.Number(copies), Color: plot.Grey, Dashed: true,
				Points: []plot.Point{{X: 0, Y: copies}, {X: chart.XMax, Y: copies}}})
		}
	}
	if lease := i.Lease.Seconds(); lease <= chart.XMax {
		chart.Marks = append(chart.Marks, plot.Mark{X: lease, Color: plot.Black, Label: "the first lease is over"})
	}
	slices.SortStableFunc(chart.Marks, func(a, b plot.Mark) int { return cmp.Compare(a.X, b.X) })
	for _, panel := range []*plot.Panel{&depth, &stale, &owed} {
		panel.Max = plot.Limit(panel.Max, 5)
		chart.Panels = append(chart.Panels, *panel)
	}
	return chart
}

func depthOf(s sample) float64 {
	if s.Depth < 0 {
		return math.NaN()
	}
	return float64(s.Depth)
}

// line is a figure over time.
func (l ledger) line(y func(s sample) float64) plot.Line {
	line := plot.Line{Name: l.name(), Color: l.color()}
	for _, s := range l.Samples {
		line.Points = append(line.Points, plot.Point{X: max(s.Seconds, 0), Y: y(s)})
	}
	return line
}

func (l ledger) name() string { return "window " + onOff(l.Window) }

func (l ledger) color() string {
	if l.Window {
		return plot.Blue
	}
	return plot.Red
}

// told is the outcome in a sentence.
func (l ledger) told() string {
	copies := count(l.Stale)
	if l.Stale == 0 {
		copies = "no"
	}
	return fmt.Sprintf("With the window %s: %s stale copies, done after %.1fs.", onOff(l.Window), copies, l.Finish.Duration().Seconds())
}
