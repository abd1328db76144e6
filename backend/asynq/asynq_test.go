package asynq_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, url string, config asynq.Config) *asynq.Backend {
	t.Helper()
	options, err := asynq.Options(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { client.Close() })
	config.Redis = client
	config.CheckInterval = 10 * time.Millisecond
	b, err := asynq.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	mr := miniredis.RunT(t)
	b := open(t, "redis://"+mr.Addr(), asynq.Config{})
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var messages []waybill.Message
	for i := range 300 {
		messages = append(messages, waybill.Message{DeliveryID: int64(i + 1), Claim: waybill.Claim{By: "relay:{1}", At: waybill.Stamp(1e15 + i)}})
	}
	results, err := b.Enqueue(t.Context(), messages)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Status != waybill.EnqueueAccepted {
			t.Fatalf("message %d: %v %v", i, r.Status, r.Err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	got := map[waybill.Message]int{}
	err = b.Consume(ctx, 8, func(ctx context.Context, m waybill.Message) error {
		mu.Lock()
		defer mu.Unlock()
		got[m]++
		if len(got) == len(messages) {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if got[m] != 1 {
			t.Fatalf("%v came %d times", m, got[m])
		}
	}
}
