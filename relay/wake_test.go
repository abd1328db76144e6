package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

func TestFireWakesTheRelay(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	stop := run(t, b.relay(relay.Config{Poll: time.Hour}))
	// Until the store listens, a wake-up may be missed.
	poll.Until(t, "a first hand-off", func() bool {
		b.fire(1, 0)
		return len(b.queue.ids()) > 0
	})
	for range 3 {
		poll.Until(t, "the queue to be even", func() bool { return len(b.queue.ids()) == len(b.rows()) })
		begun := time.Now()
		b.fire(1, 0)
		poll.Until(t, "the hand-off", func() bool { return len(b.queue.ids()) == len(b.rows()) })
		if took := time.Since(begun); took > 5*time.Second { // some milliseconds, on a machine that is not busy
			t.Errorf("the hand-off came %s after the fire", took)
		}
	}
	stop()
	if got := b.fault.Count("Listen"); got != 1 {
		t.Errorf("listened %d times, want once", got)
	}
}

// Trap 42: an error of the idle wait that ends the relay.
func TestStoreThatCannotListenIsPolledAndAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		var tries []time.Time
		wakes := make(chan func(), 1)
		store.setListen(func(ctx context.Context, wake func()) error {
			tries = append(tries, time.Now())
			switch len(tries) {
			case 1, 2, 3:
				return errors.New("no listener")
			case 4:
				return nil // no error, and no listening either
			}
			wakes <- wake
			<-ctx.Done()
			return nil
		})
		q := &queue{}
		logger, log := logtest.New()
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Poll: 500 * time.Millisecond, Logger: logger}))
		store.owe("a", 1)
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		wantIDs(t, "handed off by the poll", q.ids(), []int64{1})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for i, want := range []time.Duration{1, 2, 4, 8} {
			want *= time.Second
			if gap := tries[i+1].Sub(tries[i]); gap > want || gap < want*3/4 {
				t.Errorf("try %d came %s after the last, want %s or up to a quarter less", i+2, gap, want)
			}
		}
		log.Want(t, 4, "level=WARN", "not listening for wake-ups, polling meanwhile")
		store.owe("a", 1)
		(<-wakes)()
		synctest.Wait() // no time passes
		wantIDs(t, "handed off by the wake-up", q.ids(), []int64{1, 2})
		stop()
	})
}

// A listener that held for long begins with a short wait when it breaks.
func TestListenerThatBreaksLaterIsReplacedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, nil))
		var broke, again time.Time
		n := 0
		store.setListen(func(ctx context.Context, _ func()) error {
			switch n++; n {
			case 1, 2, 3, 4:
				return errDown
			case 5:
				time.Sleep(time.Hour)
				broke = time.Now()
				return errDown
			}
			again = time.Now()
			<-ctx.Done()
			return nil
		})
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: &queue{}}))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		stop()
		if gap := again.Sub(broke); gap <= 0 || gap > time.Second {
			t.Errorf("listened again %s after the loss, want within a second", gap)
		}
	})
}

func TestPollOnlyNeverListens(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	stop := run(t, b.relay(relay.Config{PollOnly: true, Poll: 20 * time.Millisecond}))
	for n := range 3 {
		b.fire(1, 0)
		poll.Until(t, "the hand-off", func() bool { return len(b.queue.ids()) == n+1 })
	}
	stop()
	if got := b.fault.Count("Listen"); got != 0 {
		t.Errorf("listened %d times, want never", got)
	}
}

// Many wake-ups during one pass are one more pass.
func TestWakeUpsAreMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		wakes := make(chan func(), 1)
		store.setListen(func(ctx context.Context, wake func()) error {
			wakes <- wake
			<-ctx.Done()
			return nil
		})
		q := &queue{answer: func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
			time.Sleep(time.Second)
			return accepted(len(messages)), nil
		}}
		store.owe("a", 1)
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Poll: time.Hour, WakeInterval: -1}))
		wake := <-wakes
		time.Sleep(500 * time.Millisecond) // in mid-pass
		for range 1000 {
			wake()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if due, _ := store.calls(); len(due) != 3 {
			t.Errorf("%d claims, want one with a row, one without, and one more for all the wake-ups", len(due))
		}
		stop()
	})
}
