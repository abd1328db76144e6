package relay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// A pause ends exactly at its moment, and not at the poll after it, however often it
// was prolonged in between. Nothing of the lane is asked for meanwhile but the pauses
// themselves, once per poll and at the end (trap 18).
func TestPauseEndsAtItsMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pollEvery = time.Second
		store := newLedger(declare(t, map[string]waybill.Options{"a": {Lane: "mail"}}))
		q := &queue{}
		logger, log := logtest.New()
		begun := time.Now()
		end := begun.Add(10*time.Second + 300*time.Millisecond)
		store.pause("mail", begun.Add(4*time.Second+700*time.Millisecond))
		store.owe("a", 3)
		var (
			mu   sync.Mutex
			seen []waybill.Observation
		)
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Lane: "mail", Poll: pollEvery, Logger: logger,
			Observer: func(o waybill.Observation) {
				mu.Lock()
				defer mu.Unlock()
				if o.Kind == waybill.ObservedPause || o.Kind == waybill.ObservedResume {
					seen = append(seen, o)
				}
			}}))
		time.Sleep(4*time.Second + 500*time.Millisecond)
		store.pause("mail", end) // a second deferral, which the relay has not read when the first would be over
		time.Sleep(time.Until(end) - time.Microsecond)
		synctest.Wait()
		if due, lapsed := store.calls(); len(due)+len(lapsed) != 0 {
			t.Errorf("claims of a paused lane: %+v, %+v", due, lapsed)
		}
		if looks := len(store.looked()); looks > 12 {
			t.Errorf("the pauses were read %d times in 10 s, want once per poll and at each end", looks)
		}
		time.Sleep(time.Microsecond)
		synctest.Wait()
		wantIDs(t, "handed off at the end of the pause", q.ids(), ids(1, 3))
		stop()
		log.Want(t, 1, "lane is paused", "by=ann", `reason="moving house"`, "until="+waybill.StampOf(begun.Add(4700*time.Millisecond)).String())
		log.Want(t, 1, "lane goes on", "by=ann", `reason="moving house"`)
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 2 || seen[0].Kind != waybill.ObservedPause || seen[1].Kind != waybill.ObservedResume || seen[0].Lane != "mail" {
			t.Errorf("observed %+v", seen)
		}
	})
}

// A wake-up does not read the pauses: their cost is the poll's.
func TestWakeUpsDoNotReadThePauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		wakes := make(chan func(), 1)
		store.setListen(func(ctx context.Context, wake func()) error {
			wakes <- wake
			<-ctx.Done()
			return nil
		})
		q := &queue{}
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Poll: time.Minute}))
		wake := <-wakes
		for range 20 {
			store.owe("a", 1)
			wake()
			synctest.Wait()
		}
		stop()
		wantIDs(t, "handed off", q.ids(), ids(1, 20))
		if looks := len(store.looked()); looks != 1 {
			t.Errorf("the pauses were read %d times, want once", looks)
		}
	})
}

// A paused lane is not claimed at all, neither what is due nor what has lapsed (traps
// 14 and 18), nor, where it is the default one, what is owed to nobody. Other lanes
// go on.
func TestPausedLaneIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}, "b": {}, "near": {Site: waybill.SiteRelay}})
	b.fire(2, time.Hour)
	b.claim(3, time.Second) // of a relay that died
	b.exec("UPDATE delivery SET receiver = 'gone' WHERE receiver = 'b'")
	b.store.SetClockOffset(time.Minute)
	near := &queue{}
	def := b.relay(relay.Config{Local: near, OrphanAfter: -1})
	mail := b.relay(relay.Config{Lane: "mail", Backend: &queue{}})
	pauseLane(b, "default", time.Hour)
	once(t, def, 0, 0)
	for _, method := range []string{"Claim", "ClaimLapsed", "OwedReceivers", "Ack"} {
		if n := b.fault.Count(method); n != 0 {
			t.Errorf("%s was called %d times for a paused lane", method, n)
		}
	}
	once(t, mail, 0, 2)

	// The database's clock decides when it is over.
	b.store.SetClockOffset(time.Hour)
	once(t, def, 0, 0)
	b.store.SetClockOffset(time.Hour + 2*time.Minute)
	once(t, def, 0, 2)
	if n := len(slices.DeleteFunc(b.rowsOf("gone"), func(r row) bool { return r.Status != waybill.Orphaned })); n != 2 {
		t.Errorf("%d rows of nobody are orphaned, want 2", n)
	}
	b.log.Want(t, 1, "lane is paused", "lane=default", "by=ann")
}

// What was claimed and not sent when the relay learns of a pause is given back by its
// id and under its claim, and keeps its place.
func TestPauseBetweenClaimAndHandOff(t *testing.T) {
	t.Parallel()
	for _, arm := range []string{"Claim", "ClaimLapsed"} {
		t.Run(arm, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}})
			b.fire(3, time.Hour)
			if arm == "ClaimLapsed" {
				b.claim(3, time.Minute)
				b.store.SetClockOffset(2 * time.Minute)
			}
			r := b.relay(relay.Config{Lane: "mail", Poll: 20 * time.Millisecond})
			b.fault.On(arm, fault.Hook{After: func() error { // it took longer than a poll
				pauseLane(b, "mail", 0)
				time.Sleep(30 * time.Millisecond)
				return nil
			}})
			stop := run(t, r)
			poll.Until(t, "the rows to be given back", func() bool { return all(b.rows(), row.GivenBack) })
			b.fault.On(arm, fault.Hook{})
			if got := b.queue.sizes(); len(got) != 0 {
				t.Errorf("batches of %v of a paused lane were handed off", got)
			}
			if _, err := b.store.ResumeLane(t.Context(), "mail"); err != nil {
				t.Fatal(err)
			}
			poll.Until(t, "the hand-off", func() bool { return len(b.queue.ids()) > 0 })
			stop()
			wantIDs(t, "handed off when the lane went on", b.queue.ids(), ids(1, 3))
		})
	}
}

// An operator ends a pause that has no end; another lane's relay in the same process
// goes on meanwhile.
func TestResumedLaneGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}, "b": {}})
	pauseLane(b, "mail", 0)
	other := &queue{}
	stopMail := run(t, b.relay(relay.Config{Lane: "mail", Poll: 20 * time.Millisecond}))
	stopOther := run(t, b.relay(relay.Config{Backend: other, Poll: 20 * time.Millisecond}))
	b.fire(3, 0)
	poll.Until(t, "the other lane's hand-off", func() bool { return len(other.ids()) == 3 })
	if n := len(b.queue.ids()); n != 0 {
		t.Errorf("%d rows of the paused lane were handed off", n)
	}
	if ended, err := b.store.ResumeLane(t.Context(), "mail"); err != nil || !ended {
		t.Fatalf("resume: %t, %v", ended, err)
	}
	poll.Until(t, "the lane's hand-off", func() bool { return len(b.queue.ids()) == 3 })
	stopMail()
	stopOther()
	b.log.Want(t, 1, "lane is paused", "lane=mail", "somebody resumes it")
	b.log.Want(t, 1, "lane goes on", "lane=mail")
}

// A lane that is paused in the middle of a call that goes on until nothing is due is
// set aside for the rest of it (trap 28).
func TestOnceSetsALaneAsideThatIsPausedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(10, time.Hour)
	b.queue.answers(func(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
		pauseLane(b, "default", time.Hour)
		time.Sleep(2 * time.Millisecond)
		return accepted(len(messages)), nil
	})
	r := b.relay(relay.Config{BatchSize: 2, Poll: time.Millisecond})
	once(t, r, 0, 2)
	once(t, r, 0, 0)
}

func pauseLane(b *bench, lane string, length time.Duration) {
	b.Helper()
	_, err := b.store.PauseLane(context.Background(), waybill.PauseRequest{Lane: lane, For: length, By: "ann", Reason: "moving house", Exact: true})
	if err != nil {
		b.Error(err)
	}
}
