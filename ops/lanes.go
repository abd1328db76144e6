package ops

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// queueTimeout bounds the asking of the lanes' queues, all at the same time.
const queueTimeout = 5 * time.Second

// Lane is what is between the claim and the outcome in one lane: as its queue has
// it, and as the rows have it. The rows are right where the two differ.
type Lane struct {
	Lane string `json:"lane"`
	// Queue is nil if no queue was given.
	Queue *Queue `json:"queue"`
	// Waiting rows were handed off and no worker took them yet: their messages
	// are in the queue, or lost.
	Waiting int64 `json:"waiting"`
	Running int64 `json:"running"` // taken by a worker
	// GivenBack rows are with nobody, and will be claimed again.
	GivenBack int64 `json:"given_back"`
	// OldestWaitingSeconds is how long ago the oldest of those that wait was
	// handed off, by the database's clock and to the millisecond. It is 0, and
	// never null, when none waits.
	OldestWaitingSeconds float64 `json:"oldest_waiting_seconds"`
	// Pause is null unless the lane is paused.
	Pause *Pause `json:"pause"`
}

// Queue is what a lane's queue says of itself. A figure that it does not know is
// null, and never 0.
type Queue struct {
	Ready     waybill.Reading[int64] `json:"ready"`   // messages that wait for a worker
	Running   waybill.Reading[int64] `json:"running"` // messages that workers hold
	Consumers waybill.Reading[int64] `json:"consumers"`
	// OldestSeconds is how long the oldest of those that are ready has waited.
	OldestSeconds waybill.Reading[float64] `json:"oldest_seconds"`
	// Error is why the queue could not be asked. All figures are unknown then.
	Error string `json:"error,omitempty"`
}

// askQueues asks the queues of the lanes at the same time. One that fails costs no
// more than its own figures.
func askQueues(ctx context.Context, lanes []string, queues map[string]waybill.BacklogReader) []*Queue {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	answers := make([]*Queue, len(lanes))
	var asking sync.WaitGroup
	for i, lane := range lanes {
		if queue := queues[lane]; queue != nil {
			asking.Go(func() { answers[i] = askQueue(ctx, queue) })
		}
	}
	asking.Wait()
	return answers
}

func askQueue(ctx context.Context, queue waybill.BacklogReader) *Queue {
	backlog, err := queue.Backlog(ctx)
	if err != nil {
		return &Queue{Error: err.Error()}
	}
	answer := &Queue{Ready: backlog.Ready, Running: backlog.Running, Consumers: backlog.Consumers}
	if oldest, ok := backlog.Oldest.Value(); ok {
		answer.OldestSeconds = waybill.Known(seconds(oldest))
	}
	return answer
}

// lanes counts the rows of each lane beside what its queue answered. Receivers that
// nobody declared belong to the default lane.
func lanes(names []string, answers []*Queue, inFlight []waybill.InFlight, reg *waybill.Registry, now waybill.Stamp) []Lane {
	all := make([]Lane, len(names))
	byName := make(map[string]*Lane, len(names))
	for i, name := range names {
		all[i] = Lane{Lane: name, Queue: answers[i]}
		byName[name] = &all[i]
	}
	for _, rows := range inFlight {
		lane := byName[waybill.DefaultLane]
		if receiver, ok := reg.Receiver(rows.Receiver); ok && byName[receiver.Lane] != nil {
			lane = byName[receiver.Lane]
		}
		lane.add(rows, now)
	}
	return all
}

func (l *Lane) add(rows waybill.InFlight, now waybill.Stamp) {
	l.Waiting += rows.Waiting
	l.Running += rows.Running
	l.GivenBack += rows.GivenBack
	if rows.OldestHandedOff != 0 {
		l.OldestWaitingSeconds = max(l.OldestWaitingSeconds, secondsSince(rows.OldestHandedOff, now))
	}
}
