package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill/backend/asynq"
)

// column is what was measured with one number of slots: a figure for each run.
type column struct{ queue, whole []float64 }

// run measures everything and writes the report.
func run(ctx context.Context, c config, out io.Writer) (err error) {
	b, err := setUp(ctx, c)
	defer func() { err = errors.Join(err, b.End()) }()
	if err != nil {
		return err
	}
	servers, err := b.describe(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %s, %d CPUs\n%d deliveries a run, median of %d runs, %d Asynq servers, prefetch %d\n\n",
		runtime.Version(), servers, runtime.GOMAXPROCS(0), c.deliveries, c.runs, c.servers, c.prefetch)
	if c.backends {
		return b.compareBackends(ctx, out)
	}
	if err := b.throughput(ctx, out); err != nil {
		return err
	}
	if c.latency > 0 {
		return b.reportLatency(ctx, out)
	}
	return nil
}

// throughput measures in rounds, so that whatever else the machine does meets
// each of the figures alike.
func (b *bench) throughput(ctx context.Context, out io.Writer) error {
	var alone []float64
	columns := make([]column, len(b.slots))
	for range b.runs {
		n, err := b.sqlAlone(ctx)
		if err != nil {
			return fmt.Errorf("sql alone: %w", err)
		}
		alone = append(alone, n)
		for i, slots := range b.slots {
			queue, err := b.asynq(asynq.Config{})
			if err != nil {
				return err
			}
			if n, err = b.queueAlone(ctx, queue, slots); err != nil {
				return fmt.Errorf("asynq alone, %d slots: %w", slots, err)
			}
			columns[i].queue = append(columns[i].queue, n)
			if n, err = b.profiled(ctx, slots); err != nil {
				return fmt.Errorf("end to end, %d slots: %w", slots, err)
			}
			columns[i].whole = append(columns[i].whole, n)
		}
	}
	b.print(out, alone, columns)
	return nil
}

// profiled is endToEnd; the profile holds the last run.
func (b *bench) profiled(ctx context.Context, slots int) (float64, error) {
	queue, err := b.asynq(asynq.Config{})
	if err != nil {
		return 0, err
	}
	if b.profile == "" {
		return b.endToEnd(ctx, onPostgres{b}, queue, slots)
	}
	file, err := os.Create(b.profile)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return 0, err
	}
	defer pprof.StopCPUProfile()
	return b.endToEnd(ctx, onPostgres{b}, queue, slots)
}

func (b *bench) print(out io.Writer, alone []float64, columns []column) {
	row := func(title string, cell func(i int) string) {
		fmt.Fprintf(out, "%-24s", title)
		for i := range columns {
			fmt.Fprintf(out, "%12s", cell(i))
		}
		fmt.Fprintln(out)
	}
	bound := func(i int) float64 { return 1 / (1/median(alone) + 1/median(columns[i].queue)) }
	perSecond := func(n float64) string { return fmt.Sprintf("%.0f", n) }
	row("deliveries/s, slots:", func(i int) string { return fmt.Sprint(b.slots[i]) })
	row("sql alone", func(int) string { return perSecond(median(alone)) })
	row("asynq alone", func(i int) string { return perSecond(median(columns[i].queue)) })
	row("bound 1/(1/sql+1/asynq)", func(i int) string { return perSecond(bound(i)) })
	row("end to end", func(i int) string { return perSecond(median(columns[i].whole)) })
	row("  slowest and fastest", func(i int) string {
		return perSecond(slices.Min(columns[i].whole)) + "-" + perSecond(slices.Max(columns[i].whole))
	})
	row("  share of the bound", func(i int) string {
		return fmt.Sprintf("%.0f%%", 100*median(columns[i].whole)/bound(i))
	})
}

func (b *bench) reportLatency(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "\nfire to run at %d/s for %s%s%12s%12s%12s\n", firesPerSecond, b.latency,
		strings.Repeat(" ", 4), "p50", "p99", "max")
	for _, check := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond} {
		queue, err := b.asynq(asynq.Config{CheckInterval: check})
		if err != nil {
			return err
		}
		sorted, err := b.measureLatency(ctx, onPostgres{b}, queue)
		if err != nil {
			return fmt.Errorf("latency: %w", err)
		}
		fmt.Fprintf(out, "  check interval %-16s%12s%12s%12s\n", check, at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1))
	}
	return nil
}

// at is the latency that this share of all did not exceed.
func at(sorted []time.Duration, share float64) string {
	return sorted[int(share*float64(len(sorted)-1))].Round(100 * time.Microsecond).String()
}

// median of an even number of figures is the lower of the two in the middle.
func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[(len(sorted)-1)/2]
}
