//go:build soak

package asynq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	queue "github.com/hibiken/asynq"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// After 30 s without Redis Asynq cancels what runs, though nothing is wrong with it,
// and gives its slot to another. Neither may reach the handler.
func TestOutageOfMoreThanHalfAMinute(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	proxy := fault.NewProxy(t, server.Addr)
	direct := connect(t, server.URL)
	b := open(t, asynq.Config{Redis: connect(t, through(t, server.URL, proxy)), Lane: "mail", Servers: 1})
	if _, err := b.Enqueue(t.Context(), messages(1, 3)); err != nil {
		t.Fatal(err)
	}
	var running, most, handled atomic.Int64
	gate := make(chan struct{})
	end := backendtest.Consuming(t, b, 1, func(ctx context.Context, m waybill.Message) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-gate
		if ctx.Err() != nil {
			t.Errorf("the outage ended the context of message %d: %v", m.DeliveryID, ctx.Err())
		}
		handled.Add(1)
		return nil
	})
	poll.Until(t, "the first message is handled", func() bool { return running.Load() == 1 })
	proxy.Cut()
	time.Sleep(40 * time.Second) // Asynq's lease is 30 s long, and was extended up to 5 s ago
	proxy.Restore()
	poll.Until(t, "asynq pulls another task", func() bool { return pending(t, direct, "mail") < 2 })
	close(gate)
	poll.Until(t, "all messages are handled", func() bool { return handled.Load() == 3 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if most.Load() != 1 {
		t.Errorf("%d handler calls at a time, want 1", most.Load())
	}
}

// A settlement that was lost ends as a failure in Asynq's books, of a message that
// was handled. It is filed away, handed to nobody, and leaves the figures right.
func TestLostSettlementIsFiledAway(t *testing.T) {
	t.Parallel()
	client := connect(t, services.OwnRedis(t).URL)
	lost := new(atomic.Int64)
	lost.Store(1)
	b := open(t, asynq.Config{Redis: unsettling{client, lost}, Lane: "mail"})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	end := backendtest.Consuming(t, b, 2, func(context.Context, waybill.Message) error {
		handled.Add(1)
		return nil
	})
	inspector := queue.NewInspectorFromRedisClient(client)
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Second) {
		info, err := inspector.GetQueueInfo("waybill-mail")
		if err != nil {
			t.Fatal(err)
		}
		if info.Archived == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("asynq did not file the task away in 4 minutes: %+v", info)
		}
	}
	if got := backlogOf(t, b); got.Ready != waybill.Known(int64(0)) || got.Running != waybill.Known(int64(0)) || got.Consumers != waybill.Known(int64(2)) {
		t.Errorf("backlog %+v", got)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if handled.Load() != 1 {
		t.Errorf("the message was handled %d times", handled.Load())
	}
}
