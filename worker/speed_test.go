package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/worker"
)

// quickStore takes and acknowledges everything, as fast as a commit lasts.
type quickStore struct {
	waybill.Store
	reg                        *waybill.Registry
	commit                     time.Duration
	takes, acks, taken, landed atomic.Int64
}

func (s *quickStore) Registry() *waybill.Registry { return s.reg }

func (s *quickStore) Take(_ context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	time.Sleep(s.commit)
	s.takes.Add(1)
	s.taken.Add(int64(len(request.Messages)))
	event := &waybill.Event{Name: "parcel.sent"}
	now := waybill.StampOf(time.Now())
	taken := make([]*waybill.Delivery, len(request.Messages))
	for i, m := range request.Messages {
		taken[i] = &waybill.Delivery{
			ID: m.DeliveryID, Receiver: "a", Event: event, Attempt: 1, MaxAttempts: 5, Start: 1,
			Claim: waybill.Claim{By: request.By, At: now}, Lease: time.Minute,
		}
	}
	return taken, nil
}

func (s *quickStore) Ack(_ context.Context, acks []waybill.Ack) ([]int64, error) {
	time.Sleep(s.commit)
	s.acks.Add(1)
	s.landed.Add(int64(len(acks)))
	ids := make([]int64, len(acks))
	for i, ack := range acks {
		ids[i] = ack.DeliveryID
	}
	return ids, nil
}

// endless is a queue that brings n messages as fast as they are taken.
type endless struct{ n int64 }

func (q *endless) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	var (
		next atomic.Int64
		all  sync.WaitGroup
		errs = make(chan error, concurrency)
	)
	for range concurrency {
		all.Go(func() {
			for id := next.Add(1); id <= q.n; id = next.Add(1) {
				m := waybill.Message{DeliveryID: id, Claim: waybill.Claim{By: "relay", At: 1}}
				if err := handle(ctx, m); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	<-ctx.Done()
	return nil
}

// BenchmarkWorker measures what the worker itself costs: receivers do nothing, and
// the store answers at once or after a millisecond, as a database's commit does.
func BenchmarkWorker(b *testing.B) {
	for _, commit := range []time.Duration{0, time.Millisecond} {
		for _, slots := range []int{16, 64} {
			b.Run(fmt.Sprintf("commit=%s/slots=%d", commit, slots), func(b *testing.B) {
				reg := waybill.NewRegistry()
				reg.Add(waybill.Receiver{Key: "a", Event: waybill.AnyEvent, Run: succeed})
				store := &quickStore{reg: reg, commit: commit}
				logger, _ := logtest.New()
				var recorded atomic.Int64
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				w, err := worker.New(worker.Config{
					Store: store, Backend: &endless{int64(b.N)}, Slots: slots, Logger: logger,
					Observer: func(o waybill.Observation) {
						if o.Kind == waybill.ObservedAck && recorded.Add(1) == int64(b.N) {
							cancel()
						}
					},
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				if err := w.Run(ctx); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if store.landed.Load() != int64(b.N) {
					b.Fatalf("%d outcomes landed, want %d", store.landed.Load(), b.N)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
				b.ReportMetric(float64(store.taken.Load())/float64(store.takes.Load()), "rows/take")
				b.ReportMetric(float64(store.landed.Load())/float64(store.acks.Load()), "rows/ack")
			})
		}
	}
}
