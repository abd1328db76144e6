package relay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/relay"
)

// alertBench is a relay on a clock that is not real, and its way to be woken.
type alertBench struct {
	store *ledger
	queue *queue
	wake  func()
	seen  *sightings
	began time.Time
}

// onAlert runs test beside a relay that has just begun to wait: nothing is due, and
// its poll is an hour away.
func onAlert(t *testing.T, config relay.Config, test func(t *testing.T, b *alertBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &alertBench{store: newLedger(declare(t, map[string]waybill.Options{"a": {}})), queue: &queue{}, seen: &sightings{}, began: time.Now()}
		wakes := make(chan func(), 1)
		b.store.setListen(func(ctx context.Context, wake func()) error {
			wakes <- wake
			<-ctx.Done()
			return nil
		})
		config.Store, config.Backend, config.Poll, config.Observer = b.store, b.queue, time.Hour, b.seen.observe
		stop := run(t, newRelay(t, config))
		b.wake = <-wakes
		synctest.Wait()
		test(t, b)
		stop()
	})
}

// at sleeps until that long after the bench began.
func (b *alertBench) at(after time.Duration) {
	time.Sleep(time.Until(b.began.Add(after)))
	synctest.Wait()
}

// sightings counts what a relay was seen to do.
type sightings struct {
	mu    sync.Mutex
	wakes map[waybill.WakeSource]int
	ears  []error
}

func (s *sightings) observe(seen waybill.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch seen.Kind {
	case waybill.ObservedWake:
		if s.wakes == nil {
			s.wakes = map[waybill.WakeSource]int{}
		}
		s.wakes[seen.Wake]++
	case waybill.ObservedListen:
		s.ears = append(s.ears, seen.Err)
	}
}

func (s *sightings) woken() map[waybill.WakeSource]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.wakes)
}

// Whoever fires leaves wake-ups out for an interval after one: what they would have
// told is found within a look, to the last moment of it, and not by the poll.
func TestWakeUpThatWasLeftOutCostsALook(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 255 * time.Millisecond, 499 * time.Millisecond, 500*time.Millisecond - 1} {
		t.Run(after.String(), func(t *testing.T) {
			onAlert(t, relay.Config{}, func(t *testing.T, b *alertBench) {
				b.wake() // of a row that somebody else has taken
				b.at(after)
				b.store.owe("a", 1)
				b.at(after + waybill.WakeLook)
				wantIDs(t, "handed off within a look", b.queue.ids(), []int64{1})
			})
		})
	}
}

// What comes later has a wake-up of its own, and until then nothing is asked.
func TestAlertEnds(t *testing.T) {
	t.Parallel()
	onAlert(t, relay.Config{}, func(t *testing.T, b *alertBench) {
		b.wake()
		b.at(520 * time.Millisecond)
		due, _ := b.store.calls()
		if n := len(due); n < 50 || n > 53 { // one at the start, and one every 10 ms
			t.Errorf("%d claims in an interval, want some 52", n)
		}
		b.store.owe("a", 1)
		b.at(50 * time.Minute)
		if later, _ := b.store.calls(); len(later) != len(due) {
			t.Errorf("%d claims after the alert was over", len(later)-len(due))
		}
		b.wake()
		synctest.Wait()
		wantIDs(t, "handed off by a wake-up of its own", b.queue.ids(), []int64{1})
	})
}

// A claim that found rows is as good as a wake-up: each interval begins anew.
func TestRowsKeepTheRelayAlert(t *testing.T) {
	t.Parallel()
	onAlert(t, relay.Config{}, func(t *testing.T, b *alertBench) {
		b.wake()
		for i := range 10 {
			b.at(time.Duration(i) * 490 * time.Millisecond)
			b.store.owe("a", 1)
		}
		b.at(9*490*time.Millisecond + waybill.WakeLook)
		if n := len(b.queue.ids()); n != 10 {
			t.Errorf("%d messages, want 10", n)
		}
	})
}

func TestWakeSources(t *testing.T) {
	t.Parallel()
	onAlert(t, relay.Config{WakeInterval: 30 * time.Millisecond}, func(t *testing.T, b *alertBench) {
		b.wake()
		b.at(time.Second)
		b.at(time.Hour + time.Second)
		if diff := cmp.Diff(map[waybill.WakeSource]int{waybill.WakeNotify: 1, waybill.WakeLooked: 3, waybill.WakePoll: 1}, b.seen.woken()); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
	})
}

// Where every wake-up is sent there is nothing to look for.
func TestNegativeIntervalNeverLooks(t *testing.T) {
	t.Parallel()
	onAlert(t, relay.Config{WakeInterval: -1}, func(t *testing.T, b *alertBench) {
		for range 3 {
			b.wake()
			synctest.Wait()
		}
		b.at(50 * time.Minute)
		if diff := cmp.Diff(map[waybill.WakeSource]int{waybill.WakeNotify: 3}, b.seen.woken()); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
	})
}

// patient is a store whose wake-ups stand for a time of its own.
type patient struct {
	*ledger
	interval time.Duration
}

func (p patient) WakeInterval() time.Duration { return p.interval }

// The store knows what is left out, unless somebody knows better: on SQLite nothing is,
// and a look would take the lock that others write under.
func TestLooksAreAsLongAsTheStoresInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		stores, told      time.Duration
		atLeast, lessThan int // looks
	}{
		{"every wake-up is sent", -1, 0, 0, 1},
		{"a time of its own", 100 * time.Millisecond, 0, 10, 13},
		{"told otherwise", 100 * time.Millisecond, 50 * time.Millisecond, 5, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &sightings{}
				store := patient{newLedger(declare(t, map[string]waybill.Options{"a": {}})), c.stores}
				store.owe("a", 1)
				stop := run(t, newRelay(t, relay.Config{Store: store, Backend: &queue{}, Poll: time.Hour, WakeInterval: c.told, Observer: seen.observe}))
				time.Sleep(time.Second)
				synctest.Wait()
				if n := seen.woken()[waybill.WakeLooked]; n < c.atLeast || n >= c.lessThan {
					t.Errorf("%d looks, want %d or more and less than %d", n, c.atLeast, c.lessThan)
				}
				stop()
			})
		})
	}
}

// A batch that is full is followed by the next at once: only an end of the rows is
// worth a wait.
func TestFullBatchIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	onAlert(t, relay.Config{BatchSize: 10}, func(t *testing.T, b *alertBench) {
		b.store.owe("a", 95)
		b.wake()
		synctest.Wait() // no time passes
		if n := len(b.queue.ids()); n != 95 {
			t.Errorf("%d rows handed off at once, want 95", n)
		}
	})
}

// Where wake-ups cannot arrive the relay says so, polls, and does not keep asking.
func TestDeafListenerIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		var tries atomic.Int32
		store.setListen(func(context.Context, func()) error {
			tries.Add(1)
			return fmt.Errorf("listen: %w: a pooler?", waybill.ErrDeaf)
		})
		q, seen := &queue{}, &sightings{}
		logger, log := logtest.New()
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Logger: logger, Observer: seen.observe}))
		store.owe("a", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantIDs(t, "handed off by the poll", q.ids(), []int64{1})
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if n := tries.Load(); n != 1 {
			t.Errorf("listened %d times in nine minutes, want once", n)
		}
		log.Want(t, 1, "level=WARN", "not listening for wake-ups, polling meanwhile", "a pooler?")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		if tries.Load() != 2 || len(seen.ears) != 1 || !errors.Is(seen.ears[0], waybill.ErrDeaf) {
			t.Errorf("listened %d times and told %v, want twice and one deafness", tries.Load(), seen.ears)
		}
	})
}

// The lease that is left counts, and not the one that was stamped: a claim whose
// answer was long in coming has used more of it than the tenth that it has to spare.
func TestSlowClaimIsExtendedBeforeTheHandOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lease: 2 * time.Second}})
	b.fire(3, time.Hour)
	b.fault.On("Claim", fault.Hook{After: func() error { time.Sleep(250 * time.Millisecond); return nil }})
	var left time.Duration
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		left = 2 * time.Second
		for _, r := range b.rows() {
			left = min(left, time.Until(r.Lease.Time()))
		}
		return accepted(len(messages)), nil
	})
	once(t, b.relay(relay.Config{}), 0, 3)
	if got := b.fault.Count("Extend"); got != 1 || left < 1900*time.Millisecond {
		t.Errorf("handed off after %d extensions with %s left of a lease of 2s, want one and all of it", got, left)
	}
}
