package asynq_test

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	queue "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

func messages(first, n int) []waybill.Message {
	all := make([]waybill.Message, n)
	for i := range all {
		all[i] = waybill.Message{DeliveryID: int64(first + i), Claim: waybill.Claim{By: "relay:1:ab", At: 1_764_500_000_000_001}}
	}
	return all
}

// wantStatuses wants the results, run-length: n of a status, then n of the next.
func wantStatuses(t *testing.T, results []waybill.Result, want ...any) {
	t.Helper()
	at := 0
	for i := 0; i < len(want); i += 2 {
		for range want[i].(int) {
			if at == len(results) {
				t.Fatalf("only %d results", at)
			}
			if got := results[at]; got.Status != want[i+1].(waybill.EnqueueStatus) {
				t.Fatalf("message %d: %s (%v), want %s", at, got.Status, got.Err, want[i+1])
			}
			at++
		}
	}
	if at != len(results) {
		t.Fatalf("%d results, want %d", len(results), at)
	}
}

func pending(t *testing.T, client redis.UniversalClient, lane string) int {
	t.Helper()
	n, err := client.LLen(t.Context(), "asynq:{waybill-"+lane+"}:pending").Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// A Redis that forgets its scripts, or everything, is told again, by the same
// Backend: the queue stays visible to Asynq's tools.
func TestEnqueueAfterFlush(t *testing.T) {
	t.Parallel()
	client := connect(t, services.OwnRedis(t).URL)
	b := open(t, asynq.Config{Redis: client, Lane: "mail"})
	for i := range 3 {
		results, err := b.Enqueue(t.Context(), messages(1, 250))
		if err != nil {
			t.Fatal(err)
		}
		wantStatuses(t, results, 250, waybill.EnqueueAccepted)
		if n := pending(t, client, "mail"); n != 250 {
			t.Fatalf("%d messages pending", n)
		}
		info, err := queue.NewInspectorFromRedisClient(client).GetQueueInfo("waybill-mail")
		if err != nil || info.Pending != 250 {
			t.Fatalf("queue as Asynq's tools see it: %+v, %v", info, err)
		}
		flush := client.FlushAll
		if i == 0 {
			flush = client.ScriptFlush
			if err := client.Del(t.Context(), keys(t, client)...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := flush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func keys(t *testing.T, client redis.UniversalClient) []string {
	t.Helper()
	all, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// An answer that was lost leaves the messages unknown; they are in the queue, and
// sending them again adds none.
func TestEnqueueAnswerLost(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	proxy := fault.NewProxy(t, server.Addr)
	b := open(t, asynq.Config{Redis: connect(t, through(t, server.URL, proxy)), Lane: "mail"})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	proxy.HoldToClient()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	results, err := b.Enqueue(ctx, messages(1, 250))
	if err == nil {
		t.Fatal("no error")
	}
	// The second pipeline found the deadline over, or no time to be written.
	wantStatuses(t, results, 100, waybill.EnqueueUnknown, 150, waybill.EnqueueNotSent)
	direct := connect(t, server.URL)
	for deadline := time.Now().Add(10 * time.Second); pending(t, direct, "mail") < 100; {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages pending", pending(t, direct, "mail"))
		}
		time.Sleep(time.Millisecond)
	}
	proxy.Restore()
	results, err = b.Enqueue(t.Context(), messages(1, 250))
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, 250, waybill.EnqueueAccepted)
	if n := pending(t, direct, "mail"); n != 250 {
		t.Errorf("%d messages pending, want 250", n)
	}
}

func through(t *testing.T, serverURL string, proxy *fault.Proxy) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy.Addr()
	return u.String()
}

// What the next message would meet as well is the queue's trouble: nothing was
// queued, and the relay shall wait.
func TestEnqueueWholeQueueUnwell(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	admin := connect(t, server.URL)
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wrongPassword := strings.Replace(server.URL, "default:", "default:x", 1)
	for name, c := range map[string]struct {
		url         string
		spoil, heal func()
		word        string
	}{
		"out of memory":   {server.URL, func() { do("CONFIG", "SET", "maxmemory", "1") }, func() { do("CONFIG", "SET", "maxmemory", "0") }, "OOM"},
		"wrong password":  {wrongPassword, func() {}, func() {}, "WRONGPASS"},
		"read-only":       {server.URL, func() { do("REPLICAOF", "127.0.0.1", "1") }, func() { do("REPLICAOF", "NO", "ONE") }, "READONLY"},
		"another's key":   {server.URL, func() { do("SET", "asynq:{waybill-mail}:pending", "x") }, func() { do("FLUSHALL") }, "WRONGTYPE"},
		"not permitted":   {server.URL, func() { do("ACL", "SETUSER", "default", "-@scripting") }, func() { do("ACL", "SETUSER", "default", "+@all") }, "NOPERM"},
		"deadline passed": {server.URL, func() {}, func() {}, "deadline"},
	} {
		t.Run(name, func(t *testing.T) { // one by one: they share the server
			b := open(t, asynq.Config{Redis: connect(t, c.url), Lane: "mail"})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if name == "deadline passed" {
				cancel()
				ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
			}
			defer cancel()
			c.spoil()
			results, err := b.Enqueue(ctx, messages(1, 250))
			c.heal()
			if err == nil || !strings.Contains(err.Error(), c.word) {
				t.Errorf("error %v, want one of %s", err, c.word)
			}
			wantStatuses(t, results, 250, waybill.EnqueueNotSent)
			if strings.Contains(err.Error(), c.url) {
				t.Errorf("error tells the URL: %v", err)
			}
		})
	}
}

// What Asynq itself cannot encode is refused, and costs the others nothing.
func TestEnqueueRefusesWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	client := connect(t, "redis://"+miniredis.RunT(t).Addr())
	b := open(t, asynq.Config{Redis: client, Lane: "mail"})
	batch := messages(1, 3)
	batch[1].Claim.By = "not \xff UTF-8"
	results, err := b.Enqueue(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, 1, waybill.EnqueueAccepted, 1, waybill.EnqueueRefused, 1, waybill.EnqueueAccepted)
	if n := pending(t, client, "mail"); n != 2 {
		t.Errorf("%d messages pending, want 2", n)
	}
}

// A batch costs a round trip for each hundred of its messages, and no other.
func TestEnqueueIsARoundTripForAHundred(t *testing.T) {
	t.Parallel()
	client := connect(t, services.Redis(t))
	b := open(t, asynq.Config{Redis: client, Lane: services.Unique(t)})
	if _, err := b.Enqueue(t.Context(), messages(1000, 1)); err != nil { // Redis knows the script now
		t.Fatal(err)
	}
	trips, commands := new(pipelineCounter), new(commandCounter)
	client.AddHook(trips)
	client.AddHook(commands)
	if _, err := b.Enqueue(t.Context(), messages(1, 250)); err != nil {
		t.Fatal(err)
	}
	if trips, commands := trips.n.Load(), commands.n.Load(); trips != 3 || commands != 0 {
		t.Errorf("%d pipelines and %d commands, want 3 and 0", trips, commands)
	}
}

type pipelineCounter struct{ n atomic.Int64 }

func (c *pipelineCounter) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *pipelineCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *pipelineCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// A task that was filed away keeps its id for 90 days. It must not stand in the way
// of a later claim on its row.
func TestEnqueueBesideAnArchivedTask(t *testing.T) {
	t.Parallel()
	client := connect(t, "redis://"+miniredis.RunT(t).Addr())
	b := open(t, asynq.Config{Redis: client, Lane: "mail"})
	batch := messages(1, 3)
	if _, err := b.Enqueue(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if n, err := queue.NewInspectorFromRedisClient(client).ArchiveAllPendingTasks("waybill-mail"); n != 3 || err != nil {
		t.Fatalf("archived %d tasks, %v", n, err)
	}
	batch[0].Claim.At++              // claimed again by the same relay,
	batch[1].Claim.By = "relay:2:cd" // by another,
	results, err := b.Enqueue(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, 3, waybill.EnqueueAccepted) // and a copy of the third
	if n := pending(t, client, "mail"); n != 2 {
		t.Errorf("%d messages pending, want the 2 of later claims", n)
	}
}

// Asynq's defaults are 25 retries, and an end after half an hour whatever runs.
func TestEnqueueLeavesAsynqNothingToDecide(t *testing.T) {
	t.Parallel()
	client := connect(t, "redis://"+miniredis.RunT(t).Addr())
	b := open(t, asynq.Config{Redis: client, Lane: "mail"})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	tasks, err := queue.NewInspectorFromRedisClient(client).ListPendingTasks("waybill-mail")
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	task := tasks[0]
	if task.MaxRetry != 0 || task.Retention != 0 || task.Timeout != 24*time.Hour || !task.Deadline.IsZero() {
		t.Errorf("max retry %d, retention %s, timeout %s, deadline %s; want 0, 0, 24h, none", task.MaxRetry, task.Retention, task.Timeout, task.Deadline)
	}
}
