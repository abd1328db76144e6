package backendtest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// healthy: a queue that works says so, and works without complaint.
func healthy(t *testing.T, s *scene) {
	if checker, ok := s.Backend.(waybill.Checker); ok {
		if err := checker.Check(t.Context()); err != nil {
			t.Errorf("check: %v", err)
		}
	}
	w := s.newWorker()
	c := s.consume(t, 2, w.handle)
	s.enqueue(t, s.Backend, s.claim(t, 10))
	s.awaitSucceeded(t, 10)
	c.stop(t)
	s.wantOnce(t, w)
	if lines := append(s.log.at(slog.LevelWarn), s.log.at(slog.LevelError)...); len(lines) > 0 {
		t.Errorf("a healthy queue complained: %q", lines)
	}
}

// verbatim: the three values arrive as they left, whatever is in them.
func verbatim(t *testing.T, s *scene) {
	owners := []string{
		"relay:1:ab", "a", "{braces}", "a:b:c:", ":", `quote " and backslash \`, "per%20cent %s %d", "<b>&amp;</b>",
		"hôte:日本:🚚", "two\nlines\tand a tab", "line\u2028separator", " spaces around ", "\x01\x7f", strings.Repeat("long ", 200),
	}
	stamps := []waybill.Stamp{1, 999_999, 1_000_000, 1_764_500_000_000_001, 1_764_500_000_100_000, 4_102_444_799_999_999}
	var messages []waybill.Message
	for _, by := range owners {
		for _, at := range stamps {
			messages = append(messages, waybill.Message{DeliveryID: int64(len(messages) + 1), Claim: waybill.Claim{By: by, At: at}})
		}
	}
	messages = append(messages, waybill.Message{DeliveryID: 1<<63 - 1, Claim: waybill.Claim{By: "biggest id", At: 1}})
	s.enqueue(t, s.Backend, messages)
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	s.awaitArrivals(t, w, len(messages))
	c.stop(t)
	want := make(map[waybill.Message]int)
	got := make(map[waybill.Message]int)
	for _, m := range messages {
		want[m]++
	}
	for _, m := range w.arrivals() {
		got[m]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-sent +came):\n%s", diff)
	}
}

func emptyBatch(t *testing.T, s *scene) {
	for _, none := range [][]waybill.Message{nil, {}} {
		results, err := s.Backend.Enqueue(t.Context(), none)
		if err != nil || len(results) != 0 {
			t.Errorf("enqueue of nothing: %d results, %v", len(results), err)
		}
	}
}

func largeBatch(t *testing.T, s *scene) {
	s.enqueue(t, s.Backend, s.claim(t, s.Large))
	w := s.newWorker()
	c := s.consume(t, 16, w.handle)
	s.awaitSucceeded(t, s.Large)
	c.stop(t)
	s.wantOnce(t, w)
}

func order(t *testing.T, s *scene) {
	messages := s.claim(t, 100)
	s.enqueue(t, s.Backend, messages[:60])
	s.enqueue(t, s.Backend, messages[60:])
	w := s.newWorker()
	c := s.consume(t, 1, w.handle)
	s.awaitSucceeded(t, len(messages))
	c.stop(t)
	if diff := cmp.Diff(messages, w.arrivals()); diff != "" {
		t.Errorf("messages (-sent +came):\n%s", diff)
	}
}

// many: senders and consumers may be any number at the same time.
func many(t *testing.T, s *scene) {
	messages := s.claim(t, 120)
	first, second := s.newWorker(), s.newWorker()
	one := s.consume(t, 3, first.handle)
	two := s.consume(t, 3, second.handle)
	var senders sync.WaitGroup
	for i := range 4 {
		part := messages[i*30 : (i+1)*30]
		senders.Go(func() {
			results, err := s.Backend.Enqueue(t.Context(), part)
			if err != nil || len(results) != len(part) {
				t.Errorf("enqueue: %d results, %v", len(results), err)
			}
		})
	}
	senders.Wait()
	s.awaitSucceeded(t, len(messages))
	one.stop(t)
	two.stop(t)
	s.wantOnce(t, first, second)
}

// shared: a consumer that is busy keeps nothing from one that is idle, whether
// messages come one by one or together.
func shared(t *testing.T, s *scene) {
	w := s.newWorker()
	var begun atomic.Int64
	gate := make(chan struct{})
	handle := func(ctx context.Context, m waybill.Message) error {
		begun.Add(1)
		<-gate
		return w.handle(ctx, m)
	}
	one, two := s.consume(t, 1, handle), s.consume(t, 1, handle)
	s.enqueue(t, s.Backend, s.claim(t, 1))
	s.enqueue(t, s.Backend, s.claim(t, 1))
	await(t, "both consumers have a message", func() bool { return begun.Load() == 2 })
	gate <- struct{}{}
	gate <- struct{}{}
	s.awaitSucceeded(t, 2)
	s.enqueue(t, s.Backend, s.claim(t, 2))
	await(t, "both consumers have a message of the batch", func() bool { return begun.Load() == 4 })
	close(gate)
	s.awaitSucceeded(t, 4)
	one.stop(t)
	two.stop(t)
	s.wantOnce(t, w)
}

func isBounded(h Harness) bool {
	_, ok := h.Backend.(waybill.Bounded)
	return ok
}

// bounded: what does not fit was not sent, which is no trouble of the queue.
func bounded(t *testing.T, s *scene) {
	queue := s.Backend.(waybill.Bounded)
	room := queue.Room()
	messages := s.claim(t, room+7)
	results, err := s.Backend.Enqueue(t.Context(), messages)
	if err != nil {
		t.Fatalf("a full queue called itself unwell: %v", err)
	}
	wantAll(t, results[:room], room, waybill.EnqueueAccepted)
	wantAll(t, results[room:], 7, waybill.EnqueueNotSent)
	if got := queue.Room(); got != 0 {
		t.Errorf("room for %d in a full queue", got)
	}
	select {
	case <-queue.Freed():
		t.Error("a full queue was said to be freed")
	default:
	}
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-queue.Freed():
	case <-ctx.Done():
		t.Fatal("the queue emptied and was not said to be freed")
	}
	s.awaitSucceeded(t, room)
	if got := queue.Room(); got != room {
		t.Errorf("room for %d when empty again, want %d", got, room)
	}
	s.enqueue(t, s.Backend, messages[room:])
	s.awaitSucceeded(t, len(messages))
	c.stop(t)
	s.wantOnce(t, w)
}
