package amqp_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/internal/poll"
)

// lane of the tests that have a vhost of their own.
const (
	lane  = "mail"
	queue = "waybill-mail"
)

func messages(first, n int) []waybill.Message {
	all := make([]waybill.Message, n)
	for i := range all {
		all[i] = waybill.Message{DeliveryID: int64(first + i), Claim: waybill.Claim{By: "relay:1:ab", At: 1_764_500_000_000_001}}
	}
	return all
}

// enqueue wants every message accepted.
func enqueue(t testing.TB, b *amqp.Backend, batch []waybill.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	results, err := b.Enqueue(ctx, batch)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, len(batch), waybill.EnqueueAccepted)
}

// wantStatuses wants n results, each of one of these statuses and with a reason
// unless accepted. It returns how many there are of each.
func wantStatuses(t testing.TB, results []waybill.Result, n int, statuses ...waybill.EnqueueStatus) map[waybill.EnqueueStatus]int {
	t.Helper()
	if len(results) != n {
		t.Fatalf("%d results for %d messages", len(results), n)
	}
	counts := make(map[waybill.EnqueueStatus]int)
	for i, result := range results {
		counts[result.Status]++
		wanted := false
		for _, status := range statuses {
			wanted = wanted || result.Status == status
		}
		if !wanted || (result.Err == nil) != (result.Status == waybill.EnqueueAccepted) {
			t.Fatalf("message %d: %s (%v), want %v", i, result.Status, result.Err, statuses)
		}
	}
	return counts
}

// recovered waits until a message is accepted again.
func recovered(t testing.TB, b *amqp.Backend, batch []waybill.Message) {
	t.Helper()
	poll.Until(t, "messages are accepted again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := b.Enqueue(ctx, batch)
		return err == nil
	})
}

// consuming is backendtest.Consuming; an error of Consume fails the test.
func consuming(t testing.TB, b *amqp.Backend, concurrency int, handle waybill.Handler) (end func() error) {
	t.Helper()
	end = backendtest.Consuming(t, b, concurrency, handle)
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("consume: %v", err)
		}
	})
	return end
}

// handled counts what a handler was given.
type handled struct {
	gate          chan struct{} // calls wait for it, if not nil
	running, most atomic.Int64

	mu   sync.Mutex
	came map[int64]int
}

func (h *handled) handle(_ context.Context, m waybill.Message) error {
	n := h.running.Add(1)
	defer h.running.Add(-1)
	for old := h.most.Load(); n > old && !h.most.CompareAndSwap(old, n); old = h.most.Load() {
	}
	h.mu.Lock()
	if h.came == nil {
		h.came = make(map[int64]int)
	}
	h.came[m.DeliveryID]++
	h.mu.Unlock()
	if h.gate != nil {
		<-h.gate
	}
	return nil
}

// different returns how many different messages came.
func (h *handled) different() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.came)
}

// owed returns the messages of the batch that did not come.
func (h *handled) owed(batch []waybill.Message) []waybill.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var owed []waybill.Message
	for _, m := range batch {
		if h.came[m.DeliveryID] == 0 {
			owed = append(owed, m)
		}
	}
	return owed
}

// all waits until every message of the batch came, and enqueues what did not, as a
// relay does when leases lapse: a queue that is deleted takes with it what it had
// just accepted.
func (h *handled) all(t testing.TB, b *amqp.Backend, batch []waybill.Message) {
	t.Helper()
	var last time.Time
	poll.Until(t, "every message came", func() bool {
		owed := h.owed(batch)
		if len(owed) > 0 && time.Since(last) > 2*time.Second {
			last = time.Now()
			_, _ = b.Enqueue(t.Context(), owed)
		}
		return len(owed) == 0
	})
}

// inQueue returns how many messages are ready and how many slots consume.
func inQueue(t testing.TB, channel *amqp091.Channel, name string) (ready, consumers int) {
	t.Helper()
	q, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages, q.Consumers
}

// both runs a test on either type of queue.
func both(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
}
