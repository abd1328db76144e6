// Package ops holds what an operator does to a store: for now, asking it, the queues,
// and the running processes, what is owed and how it goes on.
package ops

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// Counts are deliveries by status. Owed is what has yet to be settled: pending,
// claimed and failed rows together.
type Counts struct {
	Owed      int64 `json:"owed"`
	Scheduled int64 `json:"scheduled"` // those of the owed that are not due yet, by their receivers' own schedule
	Claimed   int64 `json:"claimed"`   // in a queue, or running
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"` // waiting out the backoff after a failed attempt
	Dead      int64 `json:"dead"`
	Orphaned  int64 `json:"orphaned"`
	Cancelled int64 `json:"cancelled"`
	// OldestOwedSeconds is how long ago the oldest owed delivery became due, by
	// the database's clock and to the millisecond. A backoff does not make it
	// younger. It is 0, and never null, when nothing is owed or nothing due, so
	// that it can be compared with a limit as it is.
	OldestOwedSeconds float64 `json:"oldest_owed_seconds"`
}

// Report is what is owed, and what became of the rest.
type Report struct {
	Counts
	// Receivers holds every declared receiver and every other one that has
	// rows, by key.
	Receivers []Receiver `json:"receivers"`
	// UnknownReceivers are the keys of receivers that are owed deliveries and
	// are not declared.
	UnknownReceivers []string `json:"unknown_receivers"`
	// UnknownEvents are owed to receivers that are declared for another event:
	// a worker leaves them owed.
	UnknownEvents []UnknownEvent `json:"unknown_events"`
	// Lanes holds every declared lane, by name.
	Lanes []Lane `json:"lanes"`
	// WakeUps is null for a store that has nothing to say about them.
	WakeUps *WakeUps `json:"wake_ups"`
	// Live is null if no process was asked.
	Live *Live `json:"live"`
}

// Receiver is the part of one receiver.
type Receiver struct {
	Key   string `json:"key"`
	Lane  string `json:"lane"` // the default lane serves those that are not declared
	Known bool   `json:"known"`
	Counts
}

// UnknownEvent counts the deliveries of one event that are owed to a receiver
// which is not declared for it.
type UnknownEvent struct {
	Event    string `json:"event"`
	Receiver string `json:"receiver"`
	Owed     int64  `json:"owed"`
}

// Status asks the store what is owed, and compares that with what is declared. It
// asks the queues of the lanes as well, as far as they are given: one that does not
// answer within 5 s leaves its figures unknown and an error in the report, and the
// rest of the report stands. The error that is returned is the store's.
func Status(ctx context.Context, store waybill.StatusReader, reg *waybill.Registry, queues map[string]waybill.BacklogReader) (Report, error) {
	names := reg.Lanes()
	wakeUps := listenCheck(ctx, store)
	answers := askQueues(ctx, names, queues)
	heard := wakeUps()
	tallies, err := store.Tallies(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("status: %w", err)
	}
	events, err := store.OwedEvents(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("status: %w", err)
	}
	inFlight, err := store.InFlight(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("status: %w", err)
	}
	pauses, err := store.Pauses(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("status: %w", err)
	}
	now, err := store.Now(ctx) // last: a row cannot be due after it
	if err != nil {
		return Report{}, fmt.Errorf("status: %w", err)
	}
	report := Report{Receivers: []Receiver{}, UnknownReceivers: []string{}, UnknownEvents: []UnknownEvent{}, WakeUps: heard}
	report.Lanes = lanes(names, answers, inFlight, reg, now)
	report.count(tallies, reg, now)
	paused := pausesByLane(pauses)
	for i := range report.Lanes {
		report.Lanes[i].Pause = paused[report.Lanes[i].Lane]
	}
	for _, owed := range events {
		receiver, ok := reg.Receiver(owed.Receiver)
		if ok && !receiver.Accepts(owed.Event) {
			report.UnknownEvents = append(report.UnknownEvents, UnknownEvent{Event: owed.Event, Receiver: owed.Receiver, Owed: owed.Rows})
		}
	}
	slices.SortFunc(report.UnknownEvents, func(a, b UnknownEvent) int {
		return cmp.Or(cmp.Compare(a.Receiver, b.Receiver), cmp.Compare(a.Event, b.Event))
	})
	return report, nil
}

func (r *Report) count(tallies []waybill.Tally, reg *waybill.Registry, now waybill.Stamp) {
	parts := map[string]*Receiver{}
	for _, receiver := range reg.Receivers() {
		parts[receiver.Key] = &Receiver{Key: receiver.Key, Lane: receiver.Lane, Known: true}
	}
	for _, tally := range tallies {
		part, ok := parts[tally.Receiver]
		if !ok {
			part = &Receiver{Key: tally.Receiver, Lane: waybill.DefaultLane}
			parts[tally.Receiver] = part
		}
		part.add(tally, now)
		r.add(tally, now)
	}
	for _, part := range parts {
		r.Receivers = append(r.Receivers, *part)
		if !part.Known && part.Owed > 0 {
			r.UnknownReceivers = append(r.UnknownReceivers, part.Key)
		}
	}
	slices.SortFunc(r.Receivers, func(a, b Receiver) int { return cmp.Compare(a.Key, b.Key) })
	slices.Sort(r.UnknownReceivers)
}

func (c *Counts) add(tally waybill.Tally, now waybill.Stamp) {
	if tally.Status.Owed() {
		c.Owed += tally.Rows
		c.Scheduled += tally.Scheduled
		c.OldestOwedSeconds = max(c.OldestOwedSeconds, secondsSince(tally.OldestDue, now))
	}
	switch tally.Status {
	case waybill.Claimed:
		c.Claimed += tally.Rows
	case waybill.Failed:
		c.Failed += tally.Rows
	case waybill.Succeeded:
		c.Succeeded += tally.Rows
	case waybill.Dead:
		c.Dead += tally.Rows
	case waybill.Orphaned:
		c.Orphaned += tally.Rows
	case waybill.Cancelled:
		c.Cancelled += tally.Rows
	}
}

func secondsSince(then, now waybill.Stamp) float64 { return seconds(now.Time().Sub(then.Time())) }

// seconds are to the millisecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// Oldest returns OldestOwedSeconds as a duration.
func (c Counts) Oldest() time.Duration {
	return time.Duration(c.OldestOwedSeconds * float64(time.Second)).Round(time.Millisecond)
}
