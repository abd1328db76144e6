package backendtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// patience bounds every wait of the suite: ample on a busy machine.
const patience = 60 * time.Second

// receiver owns every row of the suite.
const receiver = "receiver"

// scene is a queue between rows, a relay and workers, all in small.
type scene struct {
	Harness
	log  *logCounter
	rows *rows
}

func newScene(t *testing.T, h Harness, log *logCounter) *scene {
	t.Helper()
	return &scene{Harness: h, log: log, rows: newRows(receiver, lease)}
}

// claim fires n deliveries and claims them, as one relay.
func (s *scene) claim(t *testing.T, n int) []waybill.Message {
	t.Helper()
	s.rows.add(receiver, n)
	return s.claimDue(t)
}

// claimDue claims every row that may be claimed: due, lapsed, given back.
func (s *scene) claimDue(t *testing.T) []waybill.Message {
	t.Helper()
	due, err := s.rows.Claim(t.Context(), waybill.ClaimRequest{By: "relay:1:ab", Receivers: []string{receiver}, Limit: 1 << 20, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	lapsed, err := s.rows.ClaimLapsed(t.Context(), waybill.LapsedRequest{By: "relay:1:ab", Limit: 1 << 20, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	var messages []waybill.Message
	for _, row := range append(due, lapsed...) {
		messages = append(messages, row.Message)
	}
	return messages
}

// enqueue hands messages to the backend, and wants every one accepted.
func (s *scene) enqueue(t *testing.T, to waybill.TaskBackend, messages []waybill.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results, err := to.Enqueue(ctx, messages)
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	wantAll(t, results, len(messages), waybill.EnqueueAccepted)
}

// handOff hands messages to the backend as a relay does: what was not taken is
// given back.
func (s *scene) handOff(t *testing.T, messages []waybill.Message) {
	t.Helper()
	if len(messages) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	results, _ := s.Backend.Enqueue(ctx, messages)
	if len(results) != len(messages) {
		t.Fatalf("%d results for %d messages", len(results), len(messages))
	}
	var back []waybill.GiveBack
	for i, result := range results {
		if result.Status == waybill.EnqueueNotSent || result.Status == waybill.EnqueueRefused {
			back = append(back, waybill.GiveBack{Message: messages[i]})
		}
	}
	if _, err := s.rows.GiveBack(t.Context(), back); err != nil {
		t.Fatal(err)
	}
}

// settle does as a relay does, until every row has succeeded. When nothing moves,
// time passes, and leases lapse.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	moved, last := time.Now(), -1
	for {
		s.handOff(t, s.claimDue(t))
		done := s.rows.count(waybill.Succeeded)
		if done == s.rows.size() {
			return
		}
		if done != last {
			moved, last = time.Now(), done
		}
		if time.Since(moved) > time.Second {
			s.rows.pass(lease)
			moved = time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d rows succeeded in %v", done, s.rows.size(), patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// awaitSucceeded waits until n rows have succeeded.
func (s *scene) awaitSucceeded(t *testing.T, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d rows succeed", n), func() bool { return s.rows.count(waybill.Succeeded) >= n })
}

// awaitArrivals waits until the worker was given n messages.
func (s *scene) awaitArrivals(t *testing.T, w *worker, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d messages arrive", n), func() bool { return len(w.arrivals()) >= n })
}

// wantOnce wants every row succeeded, by exactly one run.
func (s *scene) wantOnce(t *testing.T, workers ...*worker) {
	t.Helper()
	if got, want := s.rows.count(waybill.Succeeded), s.rows.size(); got != want {
		t.Errorf("%d of %d rows succeeded", got, want)
	}
	runs := make(map[int64]int)
	for _, w := range workers {
		w.mu.Lock()
		for id, n := range w.runs {
			runs[id] += n
		}
		w.mu.Unlock()
	}
	for id := int64(1); id <= int64(s.rows.size()); id++ {
		if runs[id] != 1 {
			t.Errorf("delivery %d ran %d times", id, runs[id])
		}
	}
}

// consumption is a Consume that runs.
type consumption struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// consume begins to consume. It ends with the test at the latest.
func (s *scene) consume(t *testing.T, concurrency int, handle waybill.Handler) *consumption {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumption{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = s.Backend.Consume(ctx, concurrency, handle)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-c.done:
		case <-time.After(patience):
			t.Errorf("consume did not end in %v", patience)
		}
	})
	return c
}

// stop ends the consumption in order.
func (c *consumption) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(patience):
		t.Fatalf("consume did not end in %v", patience)
	}
	if c.err != nil {
		t.Errorf("consume: %v", c.err)
	}
}

// ended reports whether Consume has returned.
func (c *consumption) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// running fails the test if the consumption has ended by itself.
func (c *consumption) running(t *testing.T) {
	t.Helper()
	if c.ended() {
		t.Fatalf("consume ended by itself: %v", c.err)
	}
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// never watches for a short while that the condition does not come to hold.
func never(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(150 * time.Millisecond); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if holds() {
			t.Fatal(what)
		}
	}
}

// wantAll wants n results of one status, with a reason unless accepted.
func wantAll(t *testing.T, results []waybill.Result, n int, statuses ...waybill.EnqueueStatus) {
	t.Helper()
	if len(results) != n {
		t.Fatalf("%d results for %d messages", len(results), n)
	}
	for i, result := range results {
		wanted := false
		for _, status := range statuses {
			wanted = wanted || result.Status == status
		}
		if !wanted {
			t.Fatalf("message %d: %s (%v), want %v", i, result.Status, result.Err, statuses)
		}
		if (result.Err == nil) != (result.Status == waybill.EnqueueAccepted) {
			t.Fatalf("message %d: %s with error %v", i, result.Status, result.Err)
		}
	}
}
