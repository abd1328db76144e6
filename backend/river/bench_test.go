package river_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/river"
)

// databases are what a benchmark runs on.
func databases(b *testing.B, run func(b *testing.B, config river.Config)) {
	b.Run("postgres", func(b *testing.B) {
		run(b, river.Config{Pool: newPostgresQueue(b).pool, Logger: slog.New(slog.DiscardHandler)})
	})
	b.Run("sqlite", func(b *testing.B) {
		db, _ := newSQLiteQueue(b)
		run(b, river.Config{DB: db, Logger: slog.New(slog.DiscardHandler)})
	})
}

// inBatches calls enqueue until b.N messages are sent: ns/op is the time of one.
func inBatches(b *testing.B, size int, enqueue func(batch []waybill.Message) error) {
	b.ResetTimer()
	for first := 1; first <= b.N; first += size {
		if err := enqueue(messages(first, min(size, b.N-first+1))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEnqueue is of transactions of the backend's own.
func BenchmarkEnqueue(b *testing.B) {
	databases(b, func(b *testing.B, config river.Config) {
		backend := open(b, config)
		for _, size := range []int{1, 100, 500} {
			b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
				inBatches(b, size, func(batch []waybill.Message) error {
					_, err := backend.Enqueue(b.Context(), batch)
					return err
				})
			})
		}
	})
}

// BenchmarkEnqueueTx is of transactions of the caller's, which do nothing else.
func BenchmarkEnqueueTx(b *testing.B) {
	databases(b, func(b *testing.B, config river.Config) {
		backend := open(b, config)
		for _, size := range []int{100, 500} {
			b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
				inBatches(b, size, func(batch []waybill.Message) error {
					if config.DB == nil {
						return pgx.BeginFunc(b.Context(), config.Pool, func(tx pgx.Tx) error {
							return backend.EnqueueTx(b.Context(), tx, batch)
						})
					}
					tx, err := config.DB.BeginTx(b.Context(), nil)
					if err != nil {
						return err
					}
					if err := backend.EnqueueTx(b.Context(), tx, batch); err != nil {
						return err
					}
					return tx.Commit()
				})
			})
		}
	})
}

// BenchmarkPlainClient is River's own fast insert, for comparison, and what a new
// client for each transaction costs.
func BenchmarkPlainClient(b *testing.B) {
	q := newPostgresQueue(b)
	config := &queue.Config{Schema: q.schema, Logger: slog.New(slog.DiscardHandler)}
	driver := riverpgxv5.New(q.pool)
	client, err := queue.NewClient(driver, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("batch=100", func(b *testing.B) {
		inBatches(b, 100, func(batch []waybill.Message) error {
			jobs := make([]queue.InsertManyParams, len(batch))
			for i, message := range batch {
				body, err := message.MarshalJSON()
				if err != nil {
					return err
				}
				jobs[i].Args = rawArgs{waybill.MessageKind, body}
			}
			_, err := client.InsertManyFast(b.Context(), jobs)
			return err
		})
	})
	b.Run("new client", func(b *testing.B) {
		for range b.N {
			if _, err := queue.NewClient(driver, config); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkConsume measures how fast messages reach a handler that does nothing.
func BenchmarkConsume(b *testing.B) {
	for _, slots := range []int{16, 64} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			databases(b, func(b *testing.B, config river.Config) {
				backend := open(b, config)
				if _, err := backend.Enqueue(b.Context(), messages(1, b.N)); err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				all := make(chan struct{})
				done := make(chan error, 1)
				b.ResetTimer()
				go func() {
					done <- backend.Consume(ctx, slots, func(context.Context, waybill.Message) error {
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
		})
	}
}
