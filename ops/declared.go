package ops

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// DeclaredLane is a lane as it is declared, and whether it goes on.
type DeclaredLane struct {
	Lane string `json:"lane"`
	// Receivers are the keys of those declared in the lane, sorted.
	Receivers []string `json:"receivers"`
	// HandOffLeaseSeconds is null unless the lane is declared with a hand-off lease,
	// apart from its receivers' own leases.
	HandOffLeaseSeconds *float64 `json:"handoff_lease_seconds"`
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
		lane := DeclaredLane{Lane: name, Receivers: waybill.Keys(reg.LaneReceivers(name)), Owed: rows[name], Pause: paused[name]}
		if declared, _ := reg.Lane(name); declared.HandOffLease > 0 {
			lease := declared.HandOffLease.Seconds()
			lane.HandOffLeaseSeconds = &lease
		}
		lanes = append(lanes, lane)
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

// WriteText writes the lanes for a person. Hand-off leases are shown if any is declared.
func (l DeclaredLanes) WriteText(w io.Writer) error {
	apart := slices.ContainsFunc(l, func(lane DeclaredLane) bool { return lane.HandOffLeaseSeconds != nil })
	heading, receivers := []string{"LANE", "OWED"}, []string{"RECEIVERS"}
	if apart {
		heading = append(heading, "HAND-OFF LEASE")
	}
	table := [][]string{heading}
	for _, lane := range l {
		row := []string{printable(lane.Lane), strconv.FormatInt(lane.Owed, 10)}
		if apart {
			row = append(row, lane.handOffLease())
		}
		table, receivers = append(table, row), append(receivers, strings.Join(lane.Receivers, ", "))
	}
	var columns, text strings.Builder
	writeTable(&columns, table, 1)
	for i, line := range strings.Split(strings.TrimSuffix(columns.String(), "\n"), "\n") {
		text.WriteString(strings.TrimRight(line+"  "+receivers[i], " ") + "\n")
	}
	for _, lane := range l {
		writePause(&text, lane.Lane, lane.Pause)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (l DeclaredLane) handOffLease() string {
	if l.HandOffLeaseSeconds == nil {
		return "-"
	}
	return time.Duration(*l.HandOffLeaseSeconds * float64(time.Second)).Round(time.Microsecond).String()
}
