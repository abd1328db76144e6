package wire

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// A message that nobody takes leaves the queue with the longest lease of its lane.
func TestMessagesExpireWithTheirLease(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	run := func(context.Context, *waybill.Delivery) error { return nil }
	waybill.OnAny(reg, "soon", run, waybill.Options{Lane: "short", Lease: 50 * time.Millisecond})
	waybill.OnAny(reg, "later", run, waybill.Options{Lane: "short", Lease: time.Second})
	waybill.OnAny(reg, "much later", run, waybill.Options{Lane: "long", Lease: time.Hour})
	backend, err := OpenBackend(BackendConfig{URL: services.RabbitMQ(t), Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Close)
	ready := map[string]func() int64{}
	for _, lane := range []string{"short", "long"} {
		queue, err := backend.Queue(lane)
		if err != nil {
			t.Fatal(err)
		}
		message := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "relay:1:ab", At: 1}}
		if results, err := queue.Enqueue(t.Context(), []waybill.Message{message}); err != nil || results[0].Status != waybill.EnqueueAccepted {
			t.Fatalf("enqueue: %v, %v", results, err)
		}
		ready[lane] = func() int64 {
			backlog, err := queue.(waybill.BacklogReader).Backlog(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n, _ := backlog.Ready.Value() // unknown is what an empty quorum queue is
			return n
		}
	}
	poll.Until(t, "the message of the short lane expires", func() bool { return ready["short"]() == 0 })
	if n := ready["long"](); n != 1 {
		t.Errorf("%d messages are in the long lane, want the 1 whose lease goes on", n)
	}
}
