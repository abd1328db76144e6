package waybill_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// queueOf is a Consumer that hands out its messages, then waits for the end or
// returns its error.
type queueOf struct {
	messages    []waybill.Message
	err         error
	concurrency atomic.Int64
	ended       atomic.Bool
}

func (q *queueOf) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	defer q.ended.Store(true)
	q.concurrency.Store(int64(concurrency))
	for _, message := range q.messages {
		if err := handle(ctx, message); err != nil {
			return err
		}
	}
	if q.err != nil {
		return q.err
	}
	<-ctx.Done()
	return nil
}

func (q *queueOf) Check(context.Context) error { return q.err }

func TestJoinConsumesEveryQueueUntilTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	first := &queueOf{messages: []waybill.Message{{DeliveryID: 1}, {DeliveryID: 2}}}
	second := &queueOf{messages: []waybill.Message{{DeliveryID: 3}}}

	seen := make(chan int64, 3)
	done := make(chan error, 1)
	go func() {
		done <- waybill.Join(first, second).Consume(ctx, 7, func(_ context.Context, m waybill.Message) error {
			seen <- m.DeliveryID
			return nil
		})
	}()
	got := map[int64]bool{<-seen: true, <-seen: true, <-seen: true}
	if len(got) != 3 {
		t.Errorf("handled %v, want messages 1, 2 and 3", got)
	}
	select {
	case err := <-done:
		t.Fatalf("Consume returned %v before its context ended", err)
	default:
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Consume: %v", err)
	}
	for i, queue := range []*queueOf{first, second} {
		if got := queue.concurrency.Load(); got != 7 {
			t.Errorf("queue %d was given concurrency %d, want 7", i, got)
		}
		if !queue.ended.Load() {
			t.Errorf("Consume returned before queue %d ended", i)
		}
	}
}

func TestJoinEndsAllWhenOneFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such queue")
	well, bad := &queueOf{}, &queueOf{err: broken}
	err := waybill.Join(well, bad).Consume(context.Background(), 1, func(context.Context, waybill.Message) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("Consume returned %v, want %v", err, broken)
	}
	if !well.ended.Load() {
		t.Error("the other queue goes on")
	}
}

func TestJoinOfOneAndOfNone(t *testing.T) {
	t.Parallel()
	only := &queueOf{}
	if got := waybill.Join(only); got != waybill.Consumer(only) {
		t.Errorf("Join of one consumer is %T, want that consumer", got)
	}
	if err := waybill.Join().Consume(context.Background(), 1, nil); err == nil {
		t.Error("a join of nothing consumes without an error")
	}
}

func TestJoinChecksEach(t *testing.T) {
	t.Parallel()
	broken := errors.New("the queue is misconfigured")
	checker, ok := waybill.Join(&queueOf{}, &queueOf{err: broken}).(waybill.Checker)
	if !ok {
		t.Fatal("a join is no Checker")
	}
	if err := checker.Check(context.Background()); !errors.Is(err, broken) {
		t.Errorf("Check returned %v, want %v", err, broken)
	}
}
