package demo

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

// latePost is a task queue that keeps some messages longer than their lease. The
// relay takes the row for lost and sends another message; the late copy then
// finds its claim gone and does nothing. It hides what else the queue can do: what
// comes late is in no transaction.
type latePost struct {
	wire.Queue
	stop <-chan struct{} // the end of the demo: what is late by then stays away
	sent int
	late sync.WaitGroup
}

// Unordered says that messages overtake those that the post holds.
func (p *latePost) Unordered() bool { return true }

// Enqueue accepts every message, and holds every third one back.
func (p *latePost) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	var prompt, late []waybill.Message
	for _, message := range messages {
		if p.sent++; p.sent%lateEvery == 0 {
			late = append(late, message)
		} else {
			prompt = append(prompt, message)
		}
	}
	if len(late) > 0 {
		p.late.Go(func() { p.enqueueLate(late) })
	}
	sent, err := p.Queue.Enqueue(ctx, prompt)
	results := waybill.AllResults(len(messages), waybill.EnqueueAccepted, nil)
	isLate := make(map[waybill.Message]bool, len(late))
	for _, message := range late {
		isLate[message] = true
	}
	next := 0
	for i, message := range messages {
		if !isLate[message] && next < len(sent) {
			results[i] = sent[next]
			next++
		}
	}
	return results, err
}

func (p *latePost) enqueueLate(messages []waybill.Message) {
	timer := time.NewTimer(shortLease + shortLease/2)
	defer timer.Stop()
	select {
	case <-p.stop:
	case <-timer.C:
		ctx, cancel := context.WithTimeout(context.Background(), shortLease)
		defer cancel()
		p.Queue.Enqueue(ctx, messages) //nolint:errcheck // a lost message is still owed
	}
}
