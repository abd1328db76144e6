package asynq_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	queue "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// Asynq's cancel frees its slot though the handler runs on, as an outage of half a
// minute does. The handler must not notice, and no other may run beside it.
func TestConsumeHoldsItsConcurrency(t *testing.T) {
	t.Parallel()
	client := connect(t, services.Redis(t))
	lane := services.Unique(t)
	b := open(t, asynq.Config{Redis: client, Lane: lane, Servers: 1})
	batch := messages(7_001, 3) // nobody else's: a task is cancelled by its id, in all of Redis
	if _, err := b.Enqueue(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	var running, most, ended atomic.Int64
	gate := make(chan struct{})
	end := backendtest.Consuming(t, b, 1, func(ctx context.Context, m waybill.Message) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-gate
		if ctx.Err() != nil {
			t.Errorf("the context of message %d ended: %v", m.DeliveryID, ctx.Err())
		}
		ended.Add(1)
		return nil
	})
	poll.Until(t, "the first message is handled", func() bool { return running.Load() == 1 })
	inspector := queue.NewInspectorFromRedisClient(client)
	active := func() []*queue.TaskInfo {
		tasks, err := inspector.ListActiveTasks(waybill.QueueName(lane))
		if err != nil {
			t.Fatal(err)
		}
		return tasks
	}
	first := active()
	if len(first) != 1 {
		t.Fatalf("%d tasks active", len(first))
	}
	poll.Until(t, "asynq pulls another task", func() bool {
		if err := inspector.CancelProcessing(first[0].ID); err != nil { // again, until it is subscribed
			t.Fatal(err)
		}
		tasks := active()
		return len(tasks) == 1 && tasks[0].ID != first[0].ID
	})
	close(gate)
	poll.Until(t, "all messages are handled", func() bool { return ended.Load() == 3 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if most.Load() != 1 {
		t.Errorf("%d handler calls at a time, want 1", most.Load())
	}
}

// What was pulled ahead goes back to the queue, and no lease is lost over a stop.
func TestConsumePutsPrefetchedMessagesBack(t *testing.T) {
	t.Parallel()
	client := connect(t, services.Redis(t))
	lane := services.Unique(t)
	b := open(t, asynq.Config{Redis: client, Lane: lane, Prefetch: 5})
	if _, err := b.Enqueue(t.Context(), messages(1, 12)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	came := make(map[int64]int)
	gate := make(chan struct{})
	handle := func(_ context.Context, m waybill.Message) error {
		mu.Lock()
		came[m.DeliveryID]++
		mu.Unlock()
		<-gate
		return nil
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(came)
	}
	end := backendtest.Consuming(t, b, 2, handle)
	poll.Until(t, "two are handled and five held", func() bool { return count() == 2 && pending(t, client, lane) == 5 })
	time.AfterFunc(50*time.Millisecond, func() { close(gate) })
	if err := end(); err != nil {
		t.Error(err)
	}
	if n := pending(t, client, lane); n != 10 {
		t.Errorf("%d messages pending, want the 10 that were not handled", n)
	}
	end = backendtest.Consuming(t, b, 2, handle)
	poll.Until(t, "all are handled", func() bool { return count() == 12 })
	if err := end(); err != nil {
		t.Error(err)
	}
	for id, n := range came {
		if n != 1 {
			t.Errorf("message %d was handled %d times", id, n)
		}
	}
	if info, err := queue.NewInspectorFromRedisClient(client).GetQueueInfo(waybill.QueueName(lane)); err != nil || info.Size != 0 || info.Archived != 0 {
		t.Errorf("queue %+v, %v", info, err)
	}
}

// A handler that does not return cannot hold Consume for ever.
func TestConsumeLeavesStuckHandlerBehind(t *testing.T) {
	t.Parallel()
	b := open(t, asynq.Config{Redis: connect(t, "redis://"+miniredis.RunT(t).Addr()), Drain: 50 * time.Millisecond})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	var running atomic.Bool
	gate := make(chan struct{})
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
		running.Store(true)
		<-gate
		return nil
	})
	poll.Until(t, "the message is handled", running.Load)
	err := end()
	if err == nil || !strings.Contains(err.Error(), "1 handler calls still ran") {
		t.Errorf("error %v", err)
	}
	close(gate)
}

// Asynq waits for the confirmation of its subscription without limit.
func TestConsumeEndsThoughSubscribingHangs(t *testing.T) {
	t.Parallel()
	options, err := asynq.Options("redis://" + miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	var swallowed atomic.Bool
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &unsubscribing{Conn: conn, swallowed: &swallowed}, err
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()
	b := open(t, asynq.Config{Redis: client})
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error { return nil })
	poll.Until(t, "the servers subscribe", swallowed.Load)
	if err := end(); err != nil {
		t.Error(err)
	}
}

// unsubscribing is a connection whose server never hears of a subscription.
type unsubscribing struct {
	net.Conn
	swallowed *atomic.Bool
}

func (c *unsubscribing) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("subscribe")) {
		c.swallowed.Store(true)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A Redis that answers with errors is not asked thousands of times a second, and
// is not complained of thousands of times either.
func TestConsumeDoesNotSpinOnErrors(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var warnings atomic.Int64
	client := connect(t, "redis://"+server.Addr())
	commands := new(commandCounter)
	client.AddHook(commands)
	b := open(t, asynq.Config{
		Redis: client, Servers: 2,
		Logger: slog.New(countingHandler{&warnings}),
	})
	var handled atomic.Int64
	backendtest.Consuming(t, b, 4, func(context.Context, waybill.Message) error {
		handled.Add(1)
		return nil
	})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a message is handled", func() bool { return handled.Load() == 1 })
	server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	before := commands.n.Load()
	watched := time.Now()
	poll.Until(t, "a second is over", func() bool { return time.Since(watched) > time.Second })
	asked := commands.n.Load() - before
	server.SetError("")
	if asked > 50 {
		t.Errorf("%d commands in a second of errors", asked)
	}
	if n := warnings.Load(); n > 5 {
		t.Errorf("%d warnings in a second of errors", n)
	}
	if _, err := b.Enqueue(t.Context(), messages(2, 1)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a message is handled again", func() bool { return handled.Load() == 2 })
}

type commandCounter struct{ n atomic.Int64 }

func (c *commandCounter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *commandCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}
func (c *commandCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type countingHandler struct{ n *atomic.Int64 }

func (h countingHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (h countingHandler) Handle(context.Context, slog.Record) error { h.n.Add(1); return nil }
func (h countingHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h countingHandler) WithGroup(string) slog.Handler             { return h }

// Keys that lost their other half, or hold what Asynq cannot read, hold nothing up.
func TestConsumePassesBrokenTasks(t *testing.T) {
	t.Parallel()
	client := connect(t, services.Redis(t))
	lane := services.Unique(t)
	b := open(t, asynq.Config{Redis: client, Lane: lane})
	key := "asynq:{waybill-" + lane + "}:"
	if err := client.HSet(t.Context(), key+"t:broken", "msg", "\xff\xff no protobuf", "state", "pending").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.LPush(t.Context(), key+"pending", "evicted", "broken").Err(); err != nil {
		t.Fatal(err)
	}
	foreign := queue.NewTask("mail:send", []byte(`{"delivery_id":1,"claimed_by":"a","claimed_at":"2026-11-30T09:00:00.000001Z"}`))
	if _, err := queue.NewClientFromRedisClient(client).EnqueueContext(t.Context(), foreign, queue.Queue(waybill.QueueName(lane))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Enqueue(t.Context(), messages(1, 5)); err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
		handled.Add(1)
		return nil
	})
	poll.Until(t, "the messages are handled", func() bool { return handled.Load() == 5 })
	if err := end(); err != nil {
		t.Error(err)
	}
}
