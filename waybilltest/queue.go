package waybilltest

import (
	"context"

	"github.com/waybill-go/waybill"
)

// queue is the list between relay and worker. It is used by one goroutine.
type queue struct{ messages []waybill.Message }

func (q *queue) Enqueue(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	q.messages = append(q.messages, messages...)
	return waybill.AllResults(len(messages), waybill.EnqueueAccepted, nil), nil
}

// drain returns what is in the queue and leaves none.
func (q *queue) drain() []waybill.Message {
	messages := q.messages
	q.messages = nil
	return messages
}
