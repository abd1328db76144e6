package amqp_test

import (
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// A queue that does not exist is not an empty one, and asking does not declare it.
func TestBacklogOfNoQueue(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic"})
	for range 3 {
		wantBacklog(t, b, waybill.Backlog{})
	}
	if _, err := connect(t, brokerURL).QueueDeclarePassive(queue, true, false, false, false, nil); err == nil {
		t.Error("the queue was declared")
	}
}

// Nothing at all is trusted only where it cannot be a quorum queue without a leader.
func TestBacklogOfEmptyQueue(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		brokerURL := services.RabbitMQ(t)
		b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind})
		enqueue(t, b, messages(1, 2))
		poll.Until(t, "two are ready", func() bool {
			backlog, err := b.Backlog(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return backlog == waybill.Backlog{Ready: waybill.Known[int64](2), Consumers: waybill.Known[int64](0)}
		})
		if _, err := connect(t, brokerURL).QueuePurge(queue, false); err != nil {
			t.Fatal(err)
		}
		nothing := waybill.Backlog{}
		if kind == "classic" {
			nothing = waybill.Backlog{Ready: waybill.Known[int64](0), Consumers: waybill.Known[int64](0)}
		}
		wantBacklog(t, b, nothing)
	})
}

// Whether a queue of an unknown type is empty is not known.
func TestBacklogOfQueueOfOthers(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	if _, err := connect(t, brokerURL).QueueDeclare(queue, true, false, false, false, map[string]any{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic"})
	if err := b.Check(t.Context()); err != nil { // a warning
		t.Fatal(err)
	}
	wantBacklog(t, b, waybill.Backlog{})
}

func wantBacklog(t *testing.T, b *amqp.Backend, want waybill.Backlog) {
	t.Helper()
	got, err := b.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("backlog %+v, want %+v", got, want)
	}
}
