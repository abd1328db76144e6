package backendtest

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// duplicate: a message that comes again, at once or after its run, runs nothing.
func duplicate(t *testing.T, s *scene) {
	w := s.newWorker()
	messages := s.claim(t, 20)
	s.enqueue(t, s.Backend, append(slices.Clone(messages), messages...))
	s.enqueue(t, s.Backend, messages)
	c := s.consume(t, 4, w.handle)
	s.awaitSucceeded(t, 20)
	c.stop(t)
	refused := w.refusals(waybill.RefusedTaken, waybill.RefusedSettled)
	s.enqueue(t, s.Backend, messages)
	c = s.consume(t, 4, w.handle)
	await(t, "the late copies are refused", func() bool {
		return w.refusals(waybill.RefusedTaken, waybill.RefusedSettled) >= refused+len(messages)
	})
	c.stop(t)
	s.wantOnce(t, w)
}

// lost: a message that the queue loses is still owed, and is handed off again.
func lost(t *testing.T, s *scene) {
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	queue := NewFaults(s.Backend)
	queue.SetFate(func(m waybill.Message) Fate {
		if m.DeliveryID%2 == 0 {
			return Drop
		}
		return Pass
	})
	s.enqueue(t, queue, s.claim(t, 20))
	s.awaitSucceeded(t, 10)
	if early := s.claimDue(t); len(early) != 0 {
		t.Fatalf("%d rows could be claimed before their leases lapsed", len(early))
	}
	s.rows.pass(lease)
	queue.SetFate(nil)
	again := s.claimDue(t)
	if len(again) != 10 {
		t.Fatalf("%d rows claimed again, want the 10 whose messages were lost", len(again))
	}
	s.enqueue(t, queue, again)
	s.awaitSucceeded(t, 20)
	c.stop(t)
	s.wantOnce(t, w)
}

// reordered: order is no part of the protocol.
func reordered(t *testing.T, s *scene) {
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	queue := NewFaults(s.Backend)
	queue.SetFate(func(waybill.Message) Fate { return Hold })
	s.enqueue(t, queue, s.claim(t, 25))
	s.enqueue(t, queue, s.claim(t, 25))
	err := queue.Release(t.Context(), func(held []waybill.Message) []waybill.Message {
		slices.Reverse(held)
		return held
	})
	if err != nil {
		t.Fatal(err)
	}
	s.awaitSucceeded(t, 50)
	c.stop(t)
	s.wantOnce(t, w)
}

// late: a message that comes after its row was claimed anew is refused, whether
// it comes before or after the new one.
func late(t *testing.T, s *scene) {
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	old := s.claim(t, 20)
	s.rows.pass(lease)
	fresh := s.claimDue(t)
	if len(fresh) != len(old) {
		t.Fatalf("%d rows claimed again, want %d", len(fresh), len(old))
	}
	s.enqueue(t, s.Backend, old[:10])
	await(t, "the old messages are refused", func() bool { return w.refusals(waybill.RefusedReclaimed) == 10 })
	if n := s.rows.count(waybill.Succeeded); n != 0 {
		t.Fatalf("%d rows ran on a claim they no longer hold", n)
	}
	s.enqueue(t, s.Backend, fresh)
	s.awaitSucceeded(t, 20)
	s.enqueue(t, s.Backend, old[10:])
	await(t, "the old messages are refused", func() bool { return w.refusals(waybill.RefusedSettled) == 10 })
	c.stop(t)
	s.wantOnce(t, w)
}

// answerLost: a row whose message may or may not have arrived waits for its lease,
// and runs once either way.
func answerLost(t *testing.T, s *scene) {
	w := s.newWorker()
	c := s.consume(t, 4, w.handle)
	queue := NewFaults(s.Backend)
	queue.SetFate(func(m waybill.Message) Fate {
		if m.DeliveryID%2 == 0 {
			return Vanish
		}
		return Unanswered
	})
	results, err := queue.Enqueue(t.Context(), s.claim(t, 20))
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, results, 20, waybill.EnqueueUnknown)
	queue.SetFate(nil)
	s.awaitSucceeded(t, 10)
	s.rows.pass(lease)
	s.enqueue(t, queue, s.claimDue(t))
	s.awaitSucceeded(t, 20)
	c.stop(t)
	s.wantOnce(t, w)
}

// garbage: what is no message is reported once, in a warning that begins with "dropped",
// and dropped, and holds nothing up.
func garbage(t *testing.T, s *scene) {
	dropped := func() (lines []string) {
		for _, line := range s.log.at(slog.LevelWarn) { // a queue may warn of other things on a slow machine
			if strings.HasPrefix(line, "dropped") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	bodies := []string{
		"", "{", "null", "{}", "[]", "not json", "\xff\xfe\x00", `{"delivery_id":1}`,
		`{"delivery_id":1,"claimed_by":"relay","claimed_at":"2026-11-30T09:00:00Z"}`,
		`{"delivery_id":"1","claimed_by":"relay","claimed_at":"2026-11-30T09:00:00.000001Z"}`,
		`{"delivery_id":1,"claimed_by":"","claimed_at":"2026-11-30T09:00:00.000001Z"}`,
		`{"delivery_id":0,"claimed_by":"relay","claimed_at":"2026-11-30T09:00:00.000001Z"}`,
		strings.Repeat("x", 100_000),
	}
	messages := s.claim(t, len(bodies)+1)
	for i, body := range bodies {
		s.enqueue(t, s.Backend, messages[i:i+1])
		s.Inject(t, []byte(body))
	}
	w := s.newWorker()
	c := s.consume(t, 2, w.handle)
	s.awaitSucceeded(t, len(bodies))
	await(t, "each body is reported", func() bool { return len(dropped()) >= len(bodies) })
	c.stop(t)

	c = s.consume(t, 2, w.handle) // nothing of it is left for another consumer
	s.enqueue(t, s.Backend, messages[len(bodies):])
	s.awaitSucceeded(t, len(messages))
	c.stop(t)
	if lines := dropped(); len(lines) != len(bodies) {
		t.Errorf("%d warnings for %d bodies: %q", len(lines), len(bodies), lines)
	}
	if n := len(w.arrivals()); n != len(messages) {
		t.Errorf("the handler was given %d messages, want %d", n, len(messages))
	}
	s.wantOnce(t, w)
}

// oneRefused: one message that the queue will not have costs its neighbours
// nothing, and is accepted when it is offered again and the reason is gone.
func oneRefused(t *testing.T, s *scene) {
	w := s.newWorker()
	c := s.consume(t, 2, w.handle)
	messages := s.claim(t, 5)
	heal := s.Refuse(t, messages[2].DeliveryID)
	results, err := s.Backend.Enqueue(t.Context(), messages)
	if err != nil {
		t.Fatalf("one refused message, and the queue called itself unwell: %v", err)
	}
	wantAll(t, slices.Concat(results[:2], results[3:]), 4, waybill.EnqueueAccepted)
	wantAll(t, results[2:3], 1, waybill.EnqueueRefused)
	s.awaitSucceeded(t, 4)
	heal()
	if _, err := s.rows.GiveBack(t.Context(), []waybill.GiveBack{{Message: messages[2]}}); err != nil {
		t.Fatal(err)
	}
	s.enqueue(t, s.Backend, s.claimDue(t))
	s.awaitSucceeded(t, 5)
	c.stop(t)
	s.wantOnce(t, w)
}
