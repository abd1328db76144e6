package ops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/waybill-go/waybill"
)

// unknown is how a figure is shown that the queue does not know.
const unknown = "?"

// writeLanes writes what is in flight: what the queues say, where any was asked, and
// beside it what the rows say.
func writeLanes(b *strings.Builder, lanes []Lane) {
	asked := slices.ContainsFunc(lanes, func(lane Lane) bool { return lane.Queue != nil })
	heading := []string{"LANE"}
	if asked {
		heading = append(heading, "READY", "RUNNING", "CONSUMERS", "OLDEST", "| rows:")
	}
	table := [][]string{append(heading, "WAITING", "RUNNING", "GIVEN BACK", "OLDEST")}
	for _, lane := range lanes {
		row := []string{printable(lane.Lane)}
		if asked {
			row = append(row, lane.Queue.columns()...)
			row = append(row, "|      ")
		}
		table = append(table, append(row, lane.columns()...))
	}
	writeTable(b, table, 1)
	if slices.ContainsFunc(table[1:], func(row []string) bool { return slices.Contains(row, unknown) }) {
		b.WriteString("? is what the queue cannot say. The rows can: they are right wherever the two differ.\n")
	}
	writeQueueErrors(b, lanes)
}

// columns are READY, RUNNING, CONSUMERS and OLDEST.
func (q *Queue) columns() []string {
	if q == nil {
		return []string{"-", "-", "-", "-"}
	}
	oldest := unknown
	if n, ok := q.Ready.Value(); ok && n == 0 {
		oldest = "-"
	} else if seconds, ok := q.OldestSeconds.Value(); ok {
		oldest = age(seconds)
	}
	return []string{figure(q.Ready), figure(q.Running), figure(q.Consumers), oldest}
}

func figure(reading waybill.Reading[int64]) string {
	if n, ok := reading.Value(); ok {
		return strconv.FormatInt(n, 10)
	}
	return unknown
}

// columns are WAITING, RUNNING, GIVEN BACK and OLDEST.
func (l Lane) columns() []string {
	oldest := "-"
	if l.Waiting > 0 {
		oldest = age(l.OldestWaitingSeconds)
	}
	return []string{
		strconv.FormatInt(l.Waiting, 10), strconv.FormatInt(l.Running, 10), strconv.FormatInt(l.GivenBack, 10), oldest,
	}
}

// writeQueueErrors writes each error once, with the lanes whose queues it is about:
// a server that is down has the same for all.
func writeQueueErrors(b *strings.Builder, lanes []Lane) {
	var errors []string
	about := make(map[string][]string)
	for _, lane := range lanes {
		if lane.Queue == nil || lane.Queue.Error == "" {
			continue
		}
		if about[lane.Queue.Error] == nil {
			errors = append(errors, lane.Queue.Error)
		}
		about[lane.Queue.Error] = append(about[lane.Queue.Error], printable(lane.Lane))
	}
	if len(errors) > 0 {
		b.WriteByte('\n')
	}
	for _, text := range errors {
		fmt.Fprintf(b, "Could not ask the queue of %s: %s\n", strings.Join(about[text], ", "), oneLine(text))
	}
}

// oneLine keeps an error from breaking the line, or speaking to the terminal.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, text)
}
