package asynq_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
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

// Traps of Asynq's servers, each with the guard that keeps a Consume out of it.

// unsettling is a Redis that loses what a handled task is settled with, as often as
// lost says. Asynq tries that once, and hands it on for retries under a context
// that has ended.
type unsettling struct {
	redis.UniversalClient
	lost *atomic.Int64
}

func (c unsettling) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	settles := slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":processed") })
	if settles && c.lost.Add(-1) >= 0 {
		return redis.NewCmdResult(nil, errors.New("connection reset by peer"))
	}
	return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// A message that was handled and could not be settled stays active, for Asynq to
// file away as failed. It must neither come again nor hold its slot.
func TestConsumeThoughASettlementIsLost(t *testing.T) {
	t.Parallel()
	client, lane := connect(t, services.Redis(t)), services.Unique(t)
	lost := new(atomic.Int64)
	lost.Store(1)
	b := open(t, asynq.Config{Redis: unsettling{client, lost}, Lane: lane})
	var mu sync.Mutex
	runs := make(map[int64]int)
	handle := func(_ context.Context, m waybill.Message) error {
		mu.Lock()
		defer mu.Unlock()
		runs[m.DeliveryID]++
		return nil
	}
	for first := 1; first < 6; first += 3 { // the second time, before another consumer
		if _, err := b.Enqueue(t.Context(), messages(first, 3)); err != nil {
			t.Fatal(err)
		}
		end := backendtest.Consuming(t, b, 1, handle)
		poll.Until(t, "the messages are handled", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(runs) == first+2
		})
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("message %d was handled %d times", id, n)
		}
	}
	if n := client.LLen(t.Context(), "asynq:{waybill-"+lane+"}:active").Val(); n != 1 {
		t.Errorf("%d tasks active, want the one that could not be settled", n)
	}
}

// What a handler fails at would be filed away for 90 days, and counted as a failure
// that the row knows nothing of.
func TestConsumeArchivesNoFailure(t *testing.T) {
	t.Parallel()
	client := connect(t, "redis://"+miniredis.RunT(t).Addr())
	b := open(t, asynq.Config{Redis: client, Lane: "mail"})
	if _, err := b.Enqueue(t.Context(), messages(1, 4)); err != nil {
		t.Fatal(err)
	}
	var failed atomic.Int64
	end := backendtest.Consuming(t, b, 2, func(context.Context, waybill.Message) error {
		failed.Add(1)
		return errors.New("the store is out of reach")
	})
	poll.Until(t, "the handler fails four times", func() bool { return failed.Load() == 4 })
	if err := end(); err != nil {
		t.Error(err)
	}
	info, err := queue.NewInspectorFromRedisClient(client).GetQueueInfo("waybill-mail")
	if err != nil || info.Size != 0 || info.FailedTotal != 0 || failed.Load() != 4 {
		t.Errorf("queue %+v, %v, after %d failures", info, err, failed.Load())
	}
}

// Asynq panics, and the process with it, when its client is closed under it. Once
// Consume has returned nothing of Asynq may be left to notice.
func TestClientIsClosedAfterConsume(t *testing.T) {
	t.Parallel()
	for range 5 {
		client := connect(t, "redis://"+miniredis.RunT(t).Addr())
		b := open(t, asynq.Config{Redis: client, Servers: 4})
		var handled atomic.Int64
		end := backendtest.Consuming(t, b, 8, func(context.Context, waybill.Message) error { handled.Add(1); return nil })
		if _, err := b.Enqueue(t.Context(), messages(1, 20)); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "messages are handled", func() bool { return handled.Load() > 0 })
		if err := end(); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A server pulls one message per round trip, however many slots it has.
func TestConsumeSharesItsSlotsAmongServers(t *testing.T) {
	t.Parallel()
	client, lane := connect(t, services.Redis(t)), services.Unique(t)
	b := open(t, asynq.Config{Redis: client, Lane: lane, Servers: 3})
	backendtest.Consuming(t, b, 7, func(context.Context, waybill.Message) error { return nil })
	var slots []int
	poll.Until(t, "the servers are up", func() bool {
		servers, err := queue.NewInspectorFromRedisClient(client).Servers()
		if err != nil {
			t.Fatal(err)
		}
		slots = nil
		for _, server := range servers {
			if _, ours := server.Queues[waybill.QueueName(lane)]; ours {
				slots = append(slots, server.Concurrency)
			}
		}
		return len(slots) == 3
	})
	slices.Sort(slots)
	if !slices.Equal(slots, []int{2, 2, 3}) {
		t.Errorf("servers with %d slots, want 2, 2 and 3", slots)
	}
}

// Asynq looks at an empty queue once a second unless it is told otherwise.
func TestConsumeLooksAtAnEmptyQueueOften(t *testing.T) {
	t.Parallel()
	client := connect(t, services.Redis(t))
	looks := new(commandCounter)
	client.AddHook(looks)
	b := open(t, asynq.Config{Redis: client, Lane: services.Unique(t), Servers: 1})
	backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error { return nil })
	begun := time.Now()
	poll.Until(t, "the queue was looked at", func() bool { return looks.n.Load() > 60 })
	if took := time.Since(begun); took > 20*time.Second { // a second each would be a minute
		t.Errorf("60 looks at intervals of %s took %s", checkInterval, took)
	}
}

// A Redis that refuses subscriptions, as a proxy may and as new users of Redis 7 are
// by default: Asynq asks again every five seconds, and forgets each connection.
func TestRefusedSubscriptionsLeakNoConnections(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	allow(t, server, "quiet", "resetchannels")
	admin := connect(t, server.URL)
	b := open(t, asynq.Config{
		Redis: connect(t, as(server, "quiet")+"?pool_size=10"), Lane: "mail", Servers: 20,
		Logger: slog.New(slog.DiscardHandler),
	})
	connections := func() int {
		for line := range strings.Lines(admin.Info(t.Context(), "clients").Val()) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "connected_clients:"); ok {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatal("redis does not count its clients")
		return 0
	}
	for range 4 {
		if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
			t.Fatal(err)
		}
		handled := make(chan struct{}, 1)
		end := backendtest.Consuming(t, b, 20, func(context.Context, waybill.Message) error {
			handled <- struct{}{}
			return nil
		})
		<-handled // it works all the same
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if n := connections(); n > 40 { // 10 in the pool, and 80 subscriptions were refused
		t.Errorf("%d connections", n)
	}
}
