package ops

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// DeclaredLane is a lane as it is declared, and whether it goes on.
type DeclaredLane struct {
	Lane string `json:"lane"`
	// Receivers are the keys of those declared in the lane, sorted.
	Receivers []string `json:"receivers"`
	// Owed counts pending, claimed and failed rows. Those of receivers that
	// nobody declares are the default lane's.
	Owed int64 `json:"owed"`
	// Pause is null unless the lane is paused.
	Pause *Pause `json:"pause"`
}

// DeclaredLanes are all of them, by name.
type DeclaredLanes []DeclaredLane

// Lanes lists the declared lanes. It costs what the owed rows cost to count, and
// does not look at the settled ones.
func Lanes(ctx context.Context, store waybill.StatusReader, reg *waybill.Registry) (DeclaredLanes, error) {
	owed, err := store.OwedEvents(ctx)
	if err != nil {
		return nil, fmt.Errorf("lanes: %w", err)
	}
	pauses, err := store.Pauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("lanes: %w", err)
	}
	paused := pausesByLane(pauses)
	rows := make(map[string]int64)
	for _, count := range owed {
		rows[laneOf(reg, count.Receiver)] += count.Rows
	}
	lanes := DeclaredLanes{}
	for _, name := range reg.Lanes() {
		lanes = append(lanes, DeclaredLane{
			Lane: name, Receivers: waybill.Keys(reg.LaneReceivers(name)), Owed: rows[name], Pause: paused[name],
		})
	}
	return lanes, nil
}

// laneOf returns the lane that serves the receiver, declared or not.
func laneOf(reg *waybill.Registry, receiver string) string {
	if declared, ok := reg.Receiver(receiver); ok {
		return declared.Lane
	}
	return waybill.DefaultLane
}

// WriteText writes the lanes for a person.
func (l DeclaredLanes) WriteText(w io.Writer) error {
	table := [][3]string{{"LANE", "OWED", "RECEIVERS"}}
	for _, lane := range l {
		table = append(table, [3]string{printable(lane.Lane), fmt.Sprint(lane.Owed), strings.Join(lane.Receivers, ", ")})
	}
	names, counts := 0, 0
	for _, row := range table {
		names, counts = max(names, utf8.RuneCountInString(row[0])), max(counts, len(row[1]))
	}
	var text strings.Builder
	for _, row := range table {
		text.WriteString(strings.TrimRight(fmt.Sprintf("%-*s  %*s  %s", names, row[0], counts, row[1], row[2]), " ") + "\n")
	}
	for _, lane := range l {
		writePause(&text, lane.Lane, lane.Pause)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
