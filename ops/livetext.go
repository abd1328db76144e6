package ops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// none is how a figure is shown that nobody told.
const none = "-"

// writeLive writes what the running processes told.
func writeLive(b *strings.Builder, live *Live) {
	if live == nil {
		return
	}
	b.WriteByte('\n')
	writeAsked(b, live.Processes)
	relays := slices.ContainsFunc(live.Processes, func(p AskedProcess) bool { return len(p.Relays) > 0 })
	workers := live.StaleCopies != nil
	if !relays && !workers {
		return
	}
	heading := []string{"LANE", "OWED"}
	if relays {
		heading = append(heading, "| relays:", "WINDOW", "WAITING", "DRAIN/S", "STALLED", "PROBES")
	}
	if workers {
		heading = append(heading, "| workers:", "TAKES", "WAIT P50", "WAIT P99", "LEASE USED", "HEADROOM")
	}
	table := [][]string{heading}
	for _, lane := range live.Lanes {
		row := []string{printable(lane.Lane), shown(lane.Owed, plain)}
		if relays {
			row = append(append(row, "|        "), lane.relayColumns()...)
		}
		if workers {
			row = append(append(row, "|         "), lane.workerColumns()...)
		}
		table = append(table, row)
	}
	writeTable(b, table, 1)
	if workers {
		b.WriteString("~ is about, over all takes since the workers started; 99 of 100 rows used no more of their lease in the queue than LEASE USED.\n")
		writeStale(b, live.StaleCopies)
	}
}

// writeAsked writes who was asked, and who could not be.
func writeAsked(b *strings.Builder, processes []AskedProcess) {
	var answered []string
	for _, process := range processes {
		if process.Error == nil {
			answered = append(answered, printable(process.Admin)+" ("+process.role()+")")
		}
	}
	if len(answered) > 0 {
		fmt.Fprintf(b, "Asked %s\n", strings.Join(answered, ", "))
	}
	for _, process := range processes {
		if process.Error != nil {
			fmt.Fprintf(b, "Could not ask %s: %s\n", printable(process.Admin), oneLine(*process.Error))
		}
	}
}

func (p AskedProcess) role() string {
	lanes := make([]string, len(p.Relays))
	for i, lane := range p.Relays {
		lanes[i] = printable(lane)
	}
	role := "relay of " + strings.Join(lanes, ", ")
	switch {
	case len(lanes) == 0:
		return "worker"
	case p.Worker:
		return role + ", and worker"
	}
	return role
}

// relayColumns are WINDOW, WAITING, DRAIN/S, STALLED and PROBES.
func (l LiveLane) relayColumns() []string {
	window, drain := shown(l.Window, plain), shown(l.Drain, plain)
	if _, known := l.Window.Value(); !known && l.Relays > 0 {
		window = "none"
	} else if known && drain == none {
		drain = unknown
	}
	stalled := shown(l.Stalled, func(stalled bool) string {
		if stalled {
			return "yes"
		}
		return "no"
	})
	return []string{window, shown(l.Waiting, plain), drain, stalled, shown(l.Probes, plain)}
}

// workerColumns are TAKES, WAIT P50 and P99, LEASE USED and HEADROOM.
func (l LiveLane) workerColumns() []string {
	wait := func(seconds float64) string {
		if seconds >= longestWait {
			return ">" + age(seconds)
		}
		return "~" + short(seconds)
	}
	used := func(share float64) string {
		if share >= mostUsed {
			return ">" + percent(share)
		}
		return "~" + percent(share)
	}
	left := func(share float64) string {
		if share <= 0 {
			return "none"
		}
		return "~" + percent(share)
	}
	return []string{shown(l.Takes, plain), shown(l.WaitP50, wait), shown(l.WaitP99, wait), shown(l.LeaseUsed, used), shown(l.Headroom, left)}
}

// writeStale writes the stale copies that there were, and what would remove them.
func writeStale(b *strings.Builder, all []StaleCopies) {
	table := [][]string{{"LANE", "REFUSED AS", "COPIES", "WORKER TIME"}}
	var remedies []string
	about := make(map[string][]string)
	for _, stale := range all {
		if stale.Copies == 0 {
			continue
		}
		lane := printable(stale.Lane)
		if stale.Lane == "" {
			lane = "(not known)"
		}
		table = append(table, []string{lane, printable(string(stale.Refusal)), strconv.FormatInt(stale.Copies, 10), shown(stale.WorkerSeconds, short)})
		what := printable(string(stale.Refusal))
		if stale.Lane != "" {
			what += " in " + lane
		}
		if about[*stale.Remedy] == nil {
			remedies = append(remedies, *stale.Remedy)
		}
		about[*stale.Remedy] = append(about[*stale.Remedy], what)
	}
	if len(table) == 1 {
		b.WriteString("\nNo stale copies.\n")
		return
	}
	b.WriteString("\nStale copies, refused by their rows since the workers started:\n")
	writeTable(b, table, 2)
	for _, remedy := range remedies {
		fmt.Fprintf(b, "  %s: %s\n", strings.Join(about[remedy], ", "), remedy)
	}
}

// shown is a figure, or none.
func shown[T any](reading waybill.Reading[T], text func(T) string) string {
	if value, ok := reading.Value(); ok {
		return text(value)
	}
	return none
}

func plain[T int64 | float64](value T) string {
	if value == T(int64(value)) {
		return strconv.FormatInt(int64(value), 10)
	}
	return strconv.FormatFloat(float64(value), 'f', 1, 64)
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 0, 64) + "%" }

// short shows seconds to two figures or so.
func short(seconds float64) string {
	precision := time.Millisecond
	switch {
	case seconds >= 10:
		precision = time.Second
	case seconds >= 1:
		precision = 100 * time.Millisecond
	}
	return time.Duration(seconds * float64(time.Second)).Round(precision).String()
}
