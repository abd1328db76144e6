package ops

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// Pause is why a lane stands still, and for how long.
type Pause struct {
	// Until is null when the lane stays paused until somebody resumes it, and
	// LeftSeconds with it.
	Until       *waybill.Stamp `json:"until"`
	LeftSeconds *float64       `json:"left_seconds"` // by the database's clock, to the millisecond
	By          string         `json:"by"`
	Reason      string         `json:"reason"`
	Since       waybill.Stamp  `json:"since"`
}

// PauseOf returns a pause as reports show it.
func PauseOf(pause waybill.Pause) Pause {
	shown := Pause{By: pause.By, Reason: pause.Reason, Since: pause.Since}
	if pause.Until != 0 {
		left := seconds(pause.Left)
		shown.Until, shown.LeftSeconds = &pause.Until, &left
	}
	return shown
}

// pausesByLane returns the pauses as reports show them.
func pausesByLane(pauses []waybill.Pause) map[string]*Pause {
	byLane := make(map[string]*Pause, len(pauses))
	for _, pause := range pauses {
		shown := PauseOf(pause)
		byLane[pause.Lane] = &shown
	}
	return byLane
}

// String says it to a person, after the name of the lane.
func (p Pause) String() string {
	end := "until somebody resumes it"
	if p.Until != nil {
		end = fmt.Sprintf("until %s, for %s more", p.Until.Time().Format(time.RFC3339), age(*p.LeftSeconds))
	}
	return fmt.Sprintf("is paused %s, by %s since %s: %s", end, printable(p.By), p.Since.Time().Format(time.RFC3339), oneLine(p.Reason))
}

// writePause writes the line of a lane that is paused.
func writePause(b *strings.Builder, lane string, pause *Pause) {
	if pause != nil {
		fmt.Fprintf(b, "Lane %s %s\n", printable(lane), *pause)
	}
}
