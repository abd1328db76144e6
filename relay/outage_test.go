package relay_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

func TestQueueOutageGivesRowsBackAndIsSurvived(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: time.Minute}})
	b.fire(250, time.Hour)
	b.queue.answers(down)
	r := b.relay(relay.Config{Poll: 20 * time.Millisecond})
	run(t, r)
	poll.Until(t, "the first batch to be given back", func() bool { return all(b.rows()[:100], row.GivenBack) })
	if rows := b.rows()[100:]; !all(rows, func(r row) bool { return r.Status == "pending" }) {
		t.Errorf("rows beside the first batch: %+v, want them never claimed", rows)
	}
	b.queue.answers(nil)
	poll.Until(t, "all rows to be handed off", func() bool {
		return all(b.rows(), func(row row) bool { return heldBy(row, r) })
	})
	sizes := b.queue.sizes()
	if len(sizes) < 3 || sizes[0] != 100 || sizes[1] != 1 {
		t.Errorf("batches of %v, want one of 100, a probe of 1, and the rest", sizes)
	}
	b.log.Want(t, 1, "level=ERROR", "queue is not well", "nobody answers")
	b.log.Want(t, 1, "level=INFO", "queue is well again")
}

// What was given back during an outage is the oldest of all and goes first.
func TestAfterAnOutageTheOrderIsAsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		store.owe("a", 30)
		q := &queue{answer: down}
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, BatchSize: 10, Poll: time.Hour}))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		q.mu.Lock()
		q.answer, q.batches = nil, nil
		q.mu.Unlock()
		time.Sleep(20 * time.Second) // long before the poll
		synctest.Wait()
		stop()
		wantIDs(t, "handed off", q.ids(), ids(1, 30))
	})
}

// While a queue is down, rows are neither churned nor let go: one row goes out
// now and then to find out.
func TestQueueOutageStopsTheClaims(t *testing.T) {
	t.Parallel()
	for _, poll := range []time.Duration{100 * time.Millisecond, time.Hour} {
		t.Run("poll "+poll.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLedger(declare(t, map[string]waybill.Options{"a": {Lease: time.Hour}}))
				store.owe("a", 1000)
				q := &queue{answer: down}
				stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Poll: poll}))
				time.Sleep(75 * time.Second)
				synctest.Wait()
				sizes := q.sizes()
				// 100 at once, then one each after 1, 2, 4, 8, 15, 15, 15, 15 s, or a quarter less.
				if len(sizes) < 8 || len(sizes) > 12 || sizes[0] != 100 || slices.Max(sizes[1:]) != 1 {
					t.Errorf("batches of %v in 75 s of outage, want 100 and then some 8 probes", sizes)
				}
				if got := store.in(waybill.Claimed); got > 100 {
					t.Errorf("%d rows were claimed for a queue that is down, want the first batch alone", got)
				}
				q.answers(nil)
				time.Sleep(17 * time.Second)
				synctest.Wait()
				if rows := q.sizes()[len(sizes):]; sum(rows) != 1000 {
					t.Errorf("batches of %v after the outage, want all 1000 rows", rows)
				}
				stop()
			})
		})
	}
}

func TestQueueOutageOfOneSiteLeavesTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"far": {}, "near": {Site: waybill.SiteRelay}}))
		store.owe("far", 10)
		far, near := &queue{answer: down}, &queue{}
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: far, Local: near}))
		for range 30 {
			store.owe("near", 3)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if got := len(near.ids()); got != 90 {
			t.Errorf("%d rows went to the queue that is well, want 90", got)
		}
		if got := len(far.ids()); got < 10 || got > 20 {
			t.Errorf("%d rows went to the queue that is down, want its 10 and some probes", got)
		}
	})
}

func TestDatabaseOutageIsWaitedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {Lane: "mail"}}))
		store.owe("a", 5)
		store.setDown(errDown)
		q := &queue{}
		logger, log := logtest.New()
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Lane: "mail", Poll: 100 * time.Millisecond, Logger: logger}))
		outage := func(gaps ...time.Duration) {
			t.Helper()
			calls := store.looked() // the first call of a pass
			calls = calls[len(calls)-len(gaps)-1:]
			for i, want := range gaps {
				want *= time.Second
				if gap := calls[i+1].Sub(calls[i]); gap > want || gap < want*3/4 {
					t.Errorf("try %d came %s after the last, want %s or up to a quarter less", i+2, gap, want)
				}
			}
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		outage(15, 15)
		calls := store.looked()
		if len(calls) < 7 || len(calls) > 9 {
			t.Errorf("%d tries in a minute of outage, want some 8", len(calls))
		}
		log.Want(t, len(calls), "level=ERROR", "pass did not succeed", "nobody answers")

		store.setDown(nil)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if got := len(q.ids()); got != 5 {
			t.Errorf("%d rows were handed off after the outage, want 5", got)
		}
		store.setDown(errDown) // another one begins at one second again
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		before := len(calls)
		calls = store.looked()
		if len(calls) <= before {
			t.Fatal("no claim after the outage")
		}
		time.Sleep(3100 * time.Millisecond)
		synctest.Wait()
		outage(1, 2)
		begun := time.Now()
		stop() // in the middle of a wait
		if took := time.Since(begun); took != 0 {
			t.Errorf("the stop took %s, want no time", took)
		}
	})
}

// Trap 41: an error of a claim that ends the relay.
func TestWaitsOfAnOutageDouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {Lane: "mail"}}))
		store.setDown(errDown)
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: &queue{}, Lane: "mail"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		calls := store.looked() // what a pass asks the store first
		for i, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
			want *= time.Second
			if gap := calls[i+1].Sub(calls[i]); gap > want || gap < want*3/4 {
				t.Errorf("try %d came %s after the last, want %s or up to a quarter less", i+2, gap, want)
			}
		}
	})
}

// Every step after the claim meets the outage as well.
func TestOutageBetweenTheSteps(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Pauses", "ClaimLapsed", "Claim", "Extend", "GiveBack"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: time.Hour}})
			b.fire(2, time.Hour)
			if method == "GiveBack" {
				b.queue.answers(down)
			}
			b.fault.On(method, fault.Hook{Before: func(context.Context) error { return errDown }})
			r := b.relay(relay.Config{Poll: 20 * time.Millisecond})
			run(t, r)
			poll.Until(t, "the error to be told", func() bool {
				return len(b.log.Lines("level=ERROR", "pass did not succeed", errDown.Error())) > 0
			})
			b.fault.On(method, fault.Hook{})
			b.queue.answers(nil)
			b.store.SetClockOffset(3 * time.Hour) // past every lease
			poll.Until(t, "all rows to be handed off", func() bool {
				return all(b.rows(), func(row row) bool { return heldBy(row, r) && row.HandedOff.Time().After(time.Now()) })
			})
		})
	}
}

func TestOnceReturnsTheErrorOfAnOutage(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 2} {
		b := newBench(t, map[string]waybill.Options{"a": {}})
		b.fire(5, time.Hour)
		r := b.relay(relay.Config{})
		b.queue.answers(down)
		if n, err := r.Once(t.Context(), limit); n != 0 || !errors.Is(err, errDown) {
			t.Errorf("limit %d, queue down: %d, %v; want 0 and the queue's error", limit, n, err)
		}
		b.fault.On("Claim", fault.Hook{Before: func(context.Context) error { return errors.New("no database") }})
		if n, err := r.Once(t.Context(), limit); n != 0 || err == nil {
			t.Errorf("limit %d, database down: %d, %v; want 0 and an error", limit, n, err)
		}
	}
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
