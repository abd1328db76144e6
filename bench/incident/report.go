package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/sizing"
)

// run plays what the flags ask for and reports it.
func run(ctx context.Context, c config, out io.Writer) error {
	variants := []incident{c.incident}
	if c.all {
		variants = c.variants()
	}
	all := []ledger{} // none is [] in JSON
	for _, variant := range variants {
		ledgers, err := c.playBoth(ctx, variant)
		if err != nil {
			return err
		}
		all = append(all, ledgers...)
		if !c.json {
			writeBeside(out, ledgers)
		}
		if c.plot != "" {
			path := variant.pictureOf(c.plot, c.all)
			if err := draw(path, ledgers); err != nil {
				return err
			}
			if !c.json {
				fmt.Fprintf(out, "picture: %s\n\n", path)
			}
		}
	}
	switch {
	case c.json:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", " ")
		return encoder.Encode(all)
	case c.all:
		writeTable(out, all)
	}
	return nil
}

// playBoth plays one variant without the window, with it, or both.
func (c config) playBoth(ctx context.Context, variant incident) (ledgers []ledger, err error) {
	for _, window := range []bool{false, true} {
		if window && c.window == "off" || !window && c.window == "auto" {
			continue
		}
		l, err := play(ctx, c.servers, variant, window)
		if err != nil {
			return nil, fmt.Errorf("%s, fault %s, window %s: %w", variant.Backend, variant.Fault, onOff(window), err)
		}
		ledgers = append(ledgers, l)
	}
	return ledgers, nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// title says what a burst is.
func (i incident) title() string {
	title := fmt.Sprintf("%s rows under a lease of %s, on %s", count(i.Rows), i.Lease, map[string]string{
		"asynq": "Asynq", "amqp": "RabbitMQ", "river": "River"}[i.Backend])
	switch i.Fault {
	case faultWorkers:
		title += fmt.Sprintf("; all workers are killed and away for %s", i.Outage)
	case faultFlush:
		title += "; Redis loses all it has"
	case faultRelay:
		title += "; one of two relays is killed"
	}
	return title
}

// figure is a line of the ledger.
type figure struct {
	name string
	of   func(l ledger) string
}

var figures = []figure{
	{"drain while there was work", func(l ledger) string { return fmt.Sprintf("%.1f/s", l.Drain) }},
	{"  until the last stale copy", func(l ledger) string { return fmt.Sprintf("%.1f/s", l.DecidingDrain) }},
	{"ideal finish", func(l ledger) string { return span(l.Ideal) }},
	{"finish", func(l ledger) string { return span(l.Finish) }},
	{"  beyond the ideal", func(l ledger) string { return fmt.Sprintf("%+.1f%%", 100*l.late()) }},
	{"deepest queue", func(l ledger) string { return count(l.DeepestQueue) }},
	{"wait in the queue, median", func(l ledger) string { return span(l.MedianWait) }},
	{"  longest", func(l ledger) string { return span(l.LongestWait) }},
	{"stale copies", func(l ledger) string { return count(l.Stale) }},
	{"  predicted", func(l ledger) string {
		if l.Predicted == nil {
			return "-"
		}
		return count(l.Predicted.StaleCopies)
	}},
	{"  more than predicted", func(l ledger) string {
		if l.Predicted == nil {
			return "-"
		}
		return fmt.Sprintf("%+.1f%%", 100*l.off())
	}},
	{"  one kept a slot for", func(l ledger) string {
		if l.Stale == 0 {
			return "-"
		}
		return l.StaleCost.Duration().Round(10 * time.Microsecond).String()
	}},
	{"messages sent a second", func(l ledger) string { return count(int(l.RelayRate)) }},
	{"claims a row", func(l ledger) string { return fmt.Sprintf("%.2f", l.Claims) }},
	{"writes a row", func(l ledger) string { return fmt.Sprintf("%.2f", l.Writes) }},
	{"runs begun again", func(l ledger) string { return count(l.Repeated) }},
	{"stalls seen / probes sent", func(l ledger) string { return fmt.Sprintf("%d / %d", l.Stalls, l.Probes) }},
	{"fault at", func(l ledger) string { return sinceFault(l, l.FaultAt) }},
	{"  well again after", func(l ledger) string { return sinceFault(l, l.Recovery) }},
}

// late is by what share of the ideal it took longer.
func (l ledger) late() float64 { return float64(l.Finish-l.Ideal) / float64(l.Ideal) }

func sinceFault(l ledger, d sizing.Seconds) string {
	if l.Fault == faultNone {
		return "-"
	}
	return span(d)
}

func span(d sizing.Seconds) string { return fmt.Sprintf("%.2fs", d.Duration().Seconds()) }

func count(n int) string { return plot.Number(float64(n)) }

// writeBeside writes ledgers of the same burst beside each other.
func writeBeside(out io.Writer, ledgers []ledger) {
	i := ledgers[0].incident
	fmt.Fprintf(out, "%s\n%d slots, %s a run; poll %s, horizon %s, margin %s\n\n",
		i.title(), i.Slots, i.service().Round(100*time.Microsecond), i.Poll, i.Horizon, i.Margin)
	row := func(name string, cell func(l ledger) string) {
		fmt.Fprintf(out, "%-30s", name)
		for _, l := range ledgers {
			fmt.Fprintf(out, "%14s", cell(l))
		}
		fmt.Fprintln(out)
	}
	row("", ledger.name)
	for _, f := range figures {
		row(f.name, f.of)
	}
	fmt.Fprintln(out)
	writeMisses(out, ledgers)
}

func writeMisses(out io.Writer, ledgers []ledger) {
	for _, l := range ledgers {
		for _, miss := range l.misses() {
			fmt.Fprintf(out, "%s: %s\n", l.name(), miss)
		}
	}
}

// writeTable writes a line for each ledger.
func writeTable(out io.Writer, all []ledger) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "QUEUE\tFAULT\tWINDOW\tDRAIN\tIDEAL\tFINISH\tBEYOND\tDEEPEST\tLONGEST WAIT\tSTALE\tPREDICTED\tWRITES\tWELL AFTER\tAGAIN\tKEPT\t\n")
	for _, l := range all {
		predicted, kept := "-", "yes"
		if l.Predicted != nil {
			predicted = count(l.Predicted.StaleCopies)
		}
		switch {
		case len(l.misses()) > 0:
			kept = "NO"
		case !l.Window && l.Predicted == nil:
			kept = "-" // nothing is promised
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f/s\t%s\t%s\t%+.1f%%\t%s\t%s\t%s\t%s\t%.2f\t%s\t%d\t%s\t\n", l.Backend, l.Fault, onOff(l.Window),
			l.Drain, span(l.Ideal), span(l.Finish), 100*l.late(), count(l.DeepestQueue), span(l.LongestWait), count(l.Stale), predicted,
			l.Writes, sinceFault(l, l.Recovery), l.Repeated, kept)
	}
	_ = table.Flush()
}
