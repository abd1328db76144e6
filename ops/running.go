package ops

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing"
)

// How much of a lane's past is looked at: so many settled rows, among so many of any kind.
const (
	lookedAtSettled = 10_000
	lookedAtRows    = 200_000
)

// HistoryStore is what a running lane is measured on.
type HistoryStore interface {
	waybill.StatusReader
	waybill.HistoryReader
}

// Running looks at a lane as it runs. queue may be nil, and one that does not answer
// within 5 s, or says nothing of itself, is unknown; queueError says why. The error that is
// returned is the store's.
//
// It is about the receivers that run behind the lane's queue; in a lane where all run in
// the relay, about those.
func Running(ctx context.Context, store HistoryStore, reg *waybill.Registry, lane string, queue waybill.BacklogReader) (running sizing.Running, queueError string, err error) {
	answer := askQueues(ctx, []string{lane}, map[string]waybill.BacklogReader{lane: queue})[0]
	s := scopeOf(reg, lane)
	running = sizing.Running{Lane: lane, Lease: s.lease, LongRuns: s.longRuns}
	if answer != nil {
		running.Depth, running.Consumers, queueError = answer.Ready, answer.Consumers, answer.Error
	}
	running.Rows, err = store.History(ctx, waybill.HistoryRequest{
		Receivers: s.receivers, Except: s.except, Limit: lookedAtRows, Settled: lookedAtSettled,
	})
	if err != nil {
		return running, "", fmt.Errorf("lane %s: %w", lane, err)
	}
	// What ran eagerly came by no queue, and the queue's workers had no part in it.
	running.Rows = slices.DeleteFunc(running.Rows, func(row waybill.HistoryRow) bool { return row.TakenAt != 0 && row.HandedOffAt == 0 })
	due, err := store.Due(ctx, waybill.DueRequest{Receivers: s.receivers, Except: s.except})
	if err != nil {
		return running, "", fmt.Errorf("lane %s: %w", lane, err)
	}
	inFlight, err := store.InFlight(ctx)
	if err != nil {
		return running, "", fmt.Errorf("lane %s: %w", lane, err)
	}
	pauses, err := store.Pauses(ctx)
	if err != nil {
		return running, "", fmt.Errorf("lane %s: %w", lane, err)
	}
	running.Now, err = store.Now(ctx) // last: nothing happened after it
	if err != nil {
		return running, "", fmt.Errorf("lane %s: %w", lane, err)
	}
	running.Due, running.DueSince = int(due.Rows), due.Since
	for _, rows := range inFlight {
		if !s.has(rows.Receiver) {
			continue
		}
		running.Waiting += int(rows.Waiting)
		running.Running += int(rows.Running)
		if at := rows.OldestHandedOff; at != 0 && (running.WaitingSince == 0 || at < running.WaitingSince) {
			running.WaitingSince = at
		}
	}
	_, running.Paused = pausesByLane(pauses)[lane]
	return running, queueError, nil
}

// DueTimes returns when the newest rows of a lane became due, newest first, at most
// limit of them.
func DueTimes(ctx context.Context, store waybill.HistoryReader, reg *waybill.Registry, lane string, limit int) ([]time.Time, error) {
	s := scopeOf(reg, lane)
	rows, err := store.History(ctx, waybill.HistoryRequest{Receivers: s.receivers, Except: s.except, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("lane %s: %w", lane, err)
	}
	times := make([]time.Time, len(rows))
	for i, row := range rows {
		times[i] = row.DueAt.Time()
	}
	return times, nil
}

// scope is whose rows are behind a lane's queue, and what they are handed off under.
type scope struct {
	receivers, except []string
	lease             sizing.Figure[time.Duration]
	longRuns          bool
}

// scopeOf is about the receivers of the lane that run behind its queue, if there are any.
// The default lane's are all that are in no named lane, declared or not.
func scopeOf(reg *waybill.Registry, lane string) scope {
	site := waybill.SiteRelay
	for _, receiver := range reg.LaneReceivers(lane) {
		if receiver.Site == waybill.SiteTask {
			site = waybill.SiteTask
		}
	}
	var s scope
	var others []string
	declared, _ := reg.Lane(lane)
	s.receivers, s.longRuns = []string{}, true
	for _, receiver := range reg.LaneReceivers(lane) {
		if receiver.Site != site {
			others = append(others, receiver.Key)
			continue
		}
		s.receivers = append(s.receivers, receiver.Key)
		s.longRuns = s.longRuns && (receiver.Heartbeat || declared.HandOffLease > 0)
	}
	lease, note := reg.LaneHandOffLease(lane, site), "the shortest of the lane's receivers"
	switch {
	case declared.HandOffLease > 0:
		lease, note = declared.HandOffLease, "the lane's hand-off lease"
	case len(s.receivers) == 0:
		note = "of receivers that declare none"
	}
	s.lease = sizing.Live(lease, note)
	if lane == waybill.DefaultLane {
		s.receivers, s.except = nil, append(reg.NamedKeys(), others...)
	}
	return s
}

func (s scope) has(receiver string) bool {
	return !slices.Contains(s.except, receiver) && (s.receivers == nil || slices.Contains(s.receivers, receiver))
}
