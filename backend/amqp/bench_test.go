package amqp_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/services"
)

// BenchmarkEnqueue: ns/op is the time of one message.
func BenchmarkEnqueue(b *testing.B) {
	for _, kind := range []string{"quorum", "classic"} {
		for _, batch := range []int{100, 500} {
			b.Run(fmt.Sprintf("%s/batch=%d", kind, batch), func(b *testing.B) {
				backend := open(b, amqp.Config{URLs: []string{services.RabbitMQ(b)}, Lane: lane, Type: kind})
				enqueue(b, backend, messages(1, 1))
				b.ResetTimer()
				for first := 1; first <= b.N; first += batch {
					enqueue(b, backend, messages(first, min(batch, b.N-first+1)))
				}
			})
		}
	}
}

// BenchmarkConsume measures how fast messages reach a handler that does nothing.
func BenchmarkConsume(b *testing.B) {
	for _, kind := range []string{"quorum", "classic"} {
		for _, slots := range []int{16, 64} {
			b.Run(fmt.Sprintf("%s/slots=%d", kind, slots), func(b *testing.B) {
				backend := open(b, amqp.Config{URLs: []string{services.RabbitMQ(b)}, Lane: lane, Type: kind})
				enqueue(b, backend, messages(1, b.N))
				var left atomic.Int64
				left.Store(int64(b.N))
				all := make(chan struct{})
				b.ResetTimer()
				end := consuming(b, backend, slots, func(context.Context, waybill.Message) error {
					if left.Add(-1) == 0 {
						close(all)
					}
					return nil
				})
				<-all
				b.StopTimer()
				if err := end(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
