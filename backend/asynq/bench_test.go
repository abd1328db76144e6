package asynq_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	queue "github.com/hibiken/asynq"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/internal/services"
)

// BenchmarkEnqueue compares the pipeline with Asynq's own client: ns/op is the
// time of one message.
func BenchmarkEnqueue(b *testing.B) {
	for _, batch := range []int{1, 100, 500} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			backend := open(b, asynq.Config{Redis: connect(b, services.Redis(b)), Lane: services.Unique(b)})
			b.ResetTimer()
			for first := 1; first <= b.N; first += batch {
				if _, err := backend.Enqueue(b.Context(), messages(first, min(batch, b.N-first+1))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("plain client", func(b *testing.B) {
		client := queue.NewClientFromRedisClient(connect(b, services.Redis(b)))
		name := waybill.QueueName(services.Unique(b))
		b.ResetTimer()
		for i := range b.N {
			body, err := messages(i+1, 1)[0].MarshalJSON()
			if err != nil {
				b.Fatal(err)
			}
			task := queue.NewTask(waybill.MessageKind, body)
			if _, err := client.EnqueueContext(b.Context(), task, queue.Queue(name), queue.MaxRetry(0)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkConsume measures how fast messages reach a handler that does nothing.
func BenchmarkConsume(b *testing.B) {
	for _, servers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			backend, err := asynq.New(asynq.Config{
				Redis: connect(b, services.Redis(b)), Lane: services.Unique(b), Servers: servers,
				CheckInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := backend.Enqueue(b.Context(), messages(1, b.N)); err != nil {
				b.Fatal(err)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ResetTimer()
			done := make(chan error, 1)
			all := make(chan struct{})
			go func() {
				done <- backend.Consume(ctx, 64, func(context.Context, waybill.Message) error {
					if left.Add(-1) == 0 {
						close(all)
					}
					return nil
				})
			}()
			<-all
			b.StopTimer()
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}
