package ops

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteText writes the report for a person.
func (r Report) WriteText(w io.Writer) error {
	rows := [][]string{{"RECEIVER", "LANE", "OWED", "CLAIMED", "FAILED", "SUCCEEDED", "DEAD", "ORPHANED", "CANCELLED", "OLDEST OWED"}}
	for _, part := range r.Receivers {
		lane := part.Lane
		if !part.Known {
			lane = "(not declared)"
		}
		rows = append(rows, append([]string{printable(part.Key), lane}, part.columns()...))
	}
	rows = append(rows, append([]string{"all", ""}, r.columns()...))
	var text strings.Builder
	writeTable(&text, rows, 2)
	text.WriteByte('\n')
	if r.Scheduled > 0 {
		fmt.Fprintf(&text, "%d of what is owed is scheduled for later.\n\n", r.Scheduled)
	}
	writeLanes(&text, r.Lanes)
	for _, lane := range r.Lanes {
		writePause(&text, lane.Lane, lane.Pause)
	}
	writeWakeUps(&text, r.WakeUps)
	if len(r.UnknownReceivers) > 0 {
		keys := make([]string, len(r.UnknownReceivers))
		for i, key := range r.UnknownReceivers {
			keys[i] = printable(key)
		}
		fmt.Fprintf(&text, "\nOwed to receivers that are not declared: %s\n", strings.Join(keys, ", "))
	}
	if len(r.UnknownEvents) > 0 {
		text.WriteString("\nOwed to receivers that are declared for another event, and left alone:\n")
		for _, u := range r.UnknownEvents {
			fmt.Fprintf(&text, "  %s to %s: %d\n", printable(u.Event), printable(u.Receiver), u.Owed)
		}
	}
	writeLive(&text, r.Live)
	_, err := io.WriteString(w, text.String())
	return err
}

func (c Counts) columns() []string {
	oldest := "-"
	if c.Owed > 0 {
		oldest = age(c.OldestOwedSeconds)
	}
	columns := make([]string, 0, 8)
	for _, n := range []int64{c.Owed, c.Claimed, c.Failed, c.Succeeded, c.Dead, c.Orphaned, c.Cancelled} {
		columns = append(columns, strconv.FormatInt(n, 10))
	}
	return append(columns, oldest)
}

// age shows seconds to the second.
func age(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// writeTable aligns the first columns, as many as left says, to the left and the
// numbers after them to the right.
func writeTable(b *strings.Builder, rows [][]string, left int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if i < left {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		b.WriteByte('\n')
	}
}

// printable keeps a name from the database from speaking to the terminal.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
