package asynq

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// TestCapture guards the one place where this package knows how Asynq enqueues:
// one script per message, on the task's key and the pending list, the encoded task
// first among its arguments, and nothing else but naming the queue.
func TestCapture(t *testing.T) {
	t.Parallel()
	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	defer nowhere.Close()
	b, err := New(Config{Redis: nowhere, Lane: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // whatever reaches the client fails
	e := b.newEncoder()
	for i := range 3 {
		m := waybill.Message{DeliveryID: int64(i + 1), Claim: waybill.Claim{By: "relay:1:ab", At: 1_764_500_000_000_001}}
		c, err := e.encode(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(e.capture.calls); got != i+1 {
			t.Fatalf("%d calls captured for %d messages", got, i+1)
		}
		task := "asynq:{waybill-mail}:t:" + taskID(m)
		if len(c.keys) != 2 || c.keys[0] != task || c.keys[1] != "asynq:{waybill-mail}:pending" {
			t.Errorf("keys %q", c.keys)
		}
		if body, ok := c.args[0].([]byte); !ok || !strings.Contains(string(body), `"claimed_at":"2025-11-30T`) {
			t.Errorf("first argument %v", c.args[0])
		}
		if c.source != b.source {
			t.Error("the script differs from the one that New captured")
		}
	}
	if got := len(e.capture.queues); got != 1 {
		t.Errorf("the queue was named %d times", got)
	}
}

// TestSameAsPlainClient compares what the pipeline leaves in Redis with what
// Asynq's own client leaves there.
func TestSameAsPlainClient(t *testing.T) {
	t.Parallel()
	m := waybill.Message{DeliveryID: 42, Claim: waybill.Claim{By: "relay:{1}:ab", At: 1_764_500_000_000_001}}
	body, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := miniredis.RunT(t), miniredis.RunT(t)
	b := backend(t, ours, slog.DiscardHandler)
	results, err := b.Enqueue(t.Context(), []waybill.Message{m})
	if err != nil || results[0].Status != waybill.EnqueueAccepted {
		t.Fatalf("enqueue: %v, %v", results, err)
	}
	plain := asynq.NewClient(asynq.RedisClientOpt{Addr: theirs.Addr()})
	defer plain.Close()
	if _, err := plain.Enqueue(asynq.NewTask(waybill.MessageKind, body), b.taskOptions(m)...); err != nil {
		t.Fatal(err)
	}
	since := "pending_since"
	for _, server := range []*miniredis.Miniredis{ours, theirs} {
		server.HDel("asynq:{waybill-mail}:t:"+taskID(m), since)
	}
	if got, want := ours.Dump(), theirs.Dump(); got != want {
		t.Errorf("redis holds\n%s\nand with the plain client\n%s", got, want)
	}
}

func TestDeleteArchived(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	b := backend(t, server, slog.DiscardHandler)
	b.deleteArchived(t.Context()) // no queue yet
	messages := make([]waybill.Message, 10)
	for i := range messages {
		messages[i] = waybill.Message{DeliveryID: int64(i + 1), Claim: waybill.Claim{By: "relay", At: 1}}
	}
	if _, err := b.Enqueue(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(b.config.Redis)
	if n, err := inspector.ArchiveAllPendingTasks(b.queue); n != 10 || err != nil {
		t.Fatalf("archived %d tasks, %v", n, err)
	}
	b.deleteArchived(t.Context())
	if info, err := inspector.GetQueueInfo(b.queue); err != nil || info.Size != 0 {
		t.Errorf("queue %+v, %v", info, err)
	}
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, fit := range map[string]bool{
		"6.2.0": true, "7.0.15": true, "8.4": true, "10.0.1": true,
		"6.0.16": false, "5.0.7": false, "2.8.0": false,
		"": true, "unknown": true, // what cannot be read is not judged
	} {
		if err := checkVersion(version); (err == nil) != fit {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestLogAdapter(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := newLogAdapter(slog.New(slog.NewTextHandler(&out, nil)))
	a.Info("Starting processing")
	a.Warn("Quitting worker. task id=1:a:1")
	a.Error("recoverer: could not move task to archive: NOT_FOUND") // after keys were lost, once a minute
	a.Error("Retry exhausted for task id=1:a:1")
	for range 3 {
		a.Error("Dequeue error: connection refused")
	}
	a.Warn("Could not remove task id=1:a:1 type=x from y")
	a.Warn("Could not remove task id=2:a:1 type=x from y")
	a.Error("Failed to write server state data: connection refused")
	if got := strings.Count(out.String(), "level=WARN"); got != 3 || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("want three warnings, got\n%s", out.String())
	}
	a.Fatal("asynq gives up") // and the process does not
	if !strings.Contains(out.String(), "level=ERROR") {
		t.Error("a fatal line is no error")
	}
}

func backend(t *testing.T, server *miniredis.Miniredis, log slog.Handler) *Backend {
	t.Helper()
	options, err := Options("redis://" + server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { client.Close() })
	b, err := New(Config{Redis: client, Lane: "mail", Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
