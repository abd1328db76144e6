package backendtest

import (
	"context"
	"sync"

	"github.com/waybill-go/waybill"
)

// worker takes what its handler is given, runs it and records the outcome.
type worker struct {
	scene *scene
	id    string

	mu      sync.Mutex
	came    []waybill.Message
	runs    map[int64]int
	refused map[waybill.Refusal]int
}

func (s *scene) newWorker() *worker {
	return &worker{
		scene: s, id: waybill.NewOwner("worker"),
		runs: make(map[int64]int), refused: make(map[waybill.Refusal]int),
	}
}

func (w *worker) handle(ctx context.Context, message waybill.Message) error {
	w.mu.Lock()
	w.came = append(w.came, message)
	w.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	answers, err := waybill.Take(ctx, w.scene.rows, w.id, []waybill.Message{message})
	if err != nil {
		return err
	}
	taken := answers[0]
	w.mu.Lock()
	if taken.Refused != "" {
		w.refused[taken.Refused]++
	} else {
		w.runs[message.DeliveryID]++
	}
	w.mu.Unlock()
	if taken.Refused != "" {
		return nil
	}
	_, err = waybill.Record(ctx, w.scene.rows, []waybill.Ack{{
		Message: waybill.Message{DeliveryID: taken.Delivery.ID, Claim: taken.Delivery.Claim},
		Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
	}})
	return err
}

// arrivals returns what the handler was given so far.
func (w *worker) arrivals() []waybill.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]waybill.Message(nil), w.came...)
}

func (w *worker) refusals(why ...waybill.Refusal) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, refusal := range why {
		n += w.refused[refusal]
	}
	return n
}
