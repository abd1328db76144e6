package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
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
	var picture bytes.Buffer
	chart := chartOf(ledgers)
	write := chart.WriteSVG
	if strings.EqualFold(filepath.Ext(path), ".png") {
		write = chart.WritePNG
	}
	if err := write(&picture); err != nil {
		return err
	}
	if err := os.WriteFile(path, picture.Bytes(), 0o644); err != nil {
		return fmt.Errorf("-plot: %w", err)
	}
	return nil
}

// chartOf shows over time how deep the queue was, how many stale copies there had been,
// and how many rows were owed.
func chartOf(ledgers []ledger) plot.Chart {
	i := ledgers[0].incident
	chart := plot.Chart{Title: i.title(), XLabel: "seconds since the first hand-off"}
	depth := plot.Panel{Label: "Messages that wait in the queue"}
	stale := plot.Panel{Label: "Stale copies so far"}
	owed := plot.Panel{Label: "Rows that are owed", Max: plot.Limit(float64(i.Rows), 5)}
	var told []string
	var predicted plot.Line
	for _, l := range ledgers {
		name, color := "window off", plot.Red
		if l.Window {
			name, color = "window on", plot.Blue
		}
		line := func(y func(s sample) float64) plot.Line {
			line := plot.Line{Name: name, Color: color}
			for _, s := range l.Samples {
				line.Points = append(line.Points, plot.Point{X: max(s.Seconds, 0), Y: y(s)})
			}
			return line
		}
		depth.Lines = append(depth.Lines, line(func(s sample) float64 {
			if s.Depth < 0 {
				return math.NaN()
			}
			return float64(s.Depth)
		}))
		stale.Lines = append(stale.Lines, line(func(s sample) float64 { return float64(s.Stale) }))
		owed.Lines = append(owed.Lines, line(func(s sample) float64 { return float64(i.Rows - s.Settled) }))
		depth.Max, stale.Max = max(depth.Max, float64(l.DeepestQueue)), max(stale.Max, float64(l.Stale))
		for _, s := range l.Samples {
			chart.XMax = max(chart.XMax, s.Seconds)
		}
		copies := count(l.Stale)
		if l.Stale == 0 {
			copies = "no"
		}
		told = append(told, fmt.Sprintf("W%s: %s stale copies, done after %.1fs", name[1:], copies, l.Finish.Duration().Seconds()))
		if l.Predicted != nil {
			predicted = plot.Line{Name: "predicted for window off: " + count(l.Predicted.StaleCopies), Color: plot.Grey, Dashed: true, Points: []plot.Point{
				{Y: float64(l.Predicted.StaleCopies)}, {Y: float64(l.Predicted.StaleCopies)}}}
			stale.Max = max(stale.Max, float64(l.Predicted.StaleCopies))
		}
		if l.Fault != faultNone {
			chart.Marks = append(chart.Marks, plot.Mark{X: l.FaultAt.Duration().Seconds(), Color: color, Dashed: true, Label: "the fault, " + name})
		}
	}
	chart.Subtitle = strings.Join(told, ". ") + "."
	depth.Max, stale.Max = plot.Limit(max(depth.Max, 1), 5), plot.Limit(max(stale.Max, 10), 5)
	chart.XMax = plot.Limit(chart.XMax, 10)
	if lease := i.Lease.Seconds(); lease <= chart.XMax {
		chart.Marks = append(chart.Marks, plot.Mark{X: lease, Color: plot.Black, Label: "the first lease is over"})
	}
	slices.SortStableFunc(chart.Marks, func(a, b plot.Mark) int { return cmp.Compare(a.X, b.X) })
	if predicted.Points != nil {
		predicted.Points[1].X = chart.XMax
		stale.Lines = append(stale.Lines, predicted)
	}
	chart.Panels = []plot.Panel{depth, stale, owed}
	return chart
}
