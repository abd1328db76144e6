package relay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/relay"
)

func TestUnknownReceiverIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	// A poll is longer than what a receiver that is seen only then may be
	// forgotten in.
	for _, poll := range []time.Duration{time.Second, 10 * time.Minute} {
		t.Run("poll "+poll.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
				store.owe("gone", 3)
				store.owe("a", 1)
				logger, log := logtest.New()
				stop := run(t, newRelay(t, relay.Config{Store: store, Backend: &queue{}, Poll: poll, Logger: logger}))
				time.Sleep(time.Hour - time.Second)
				synctest.Wait()
				log.Want(t, 1, "level=WARN", "owed to a receiver that nobody declares", "receiver=gone", "orphaned_after=1h")
				due, _ := store.calls()
				if slices.ContainsFunc(due, func(c claimed) bool { return slices.Contains(c.receivers, "gone") }) {
					t.Error("rows of the unknown receiver were claimed within the hour")
				}
				if got := store.in(waybill.Pending); got != 3 {
					t.Errorf("%d rows are pending, want the 3 of the unknown receiver", got)
				}
				time.Sleep(time.Second + poll)
				synctest.Wait()
				stop()
				if got := store.in(waybill.Orphaned); got != 3 {
					t.Errorf("%d rows are orphaned after the hour, want 3", got)
				}
				log.Want(t, 3, "level=WARN", "delivery settled without a run", "receiver=gone", "status=orphaned")
			})
		})
	}
}

func TestUnknownReceiverThatIsDeclaredInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := declare(t, map[string]waybill.Options{"a": {}})
		store := newLedger(reg)
		store.owe("gone", 3)
		q := &queue{}
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q}))
		time.Sleep(40 * time.Minute)
		reg.Add(waybill.Receiver{Key: "gone", Event: waybill.AnyEvent, Run: func(context.Context, *waybill.Delivery) error { return nil }})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		wantIDs(t, "handed off", q.ids(), ids(1, 3))
	})
}

// A lapsed row of an unknown receiver is claimed to be looked at, and then rests.
func TestLapsedRowOfAnUnknownReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
		store.owe("gone", 1)
		store.rows[0].status, store.rows[0].lease = waybill.Claimed, time.Now()
		stop := run(t, newRelay(t, relay.Config{Store: store, Backend: &queue{}}))
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		_, lapsed := store.calls()
		rows := 0
		for _, call := range lapsed {
			rows += call.rows
		}
		if got := store.in(waybill.Claimed); got != 1 || rows < 224 || rows > 241 {
			t.Errorf("%d rows are claimed after %d looks in an hour, want 1 after one each 15s or so", got, rows)
		}
		time.Sleep(18 * time.Second)
		synctest.Wait()
		stop()
		if got := store.in(waybill.Orphaned); got != 1 {
			t.Errorf("%d rows are orphaned, want 1", got)
		}
	})
}

// Trap 15: rows of a receiver that is gone belong to no lane.
func TestOrphansAtOnceWhenAskedTo(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(250, time.Hour)
	b.exec(`UPDATE delivery SET receiver = 'gone'`)
	b.exec(`UPDATE delivery SET status = 'claimed', claimed_by = 'dead relay', claimed_at = 1, lease_expires_at = 1 WHERE id <= 120`)
	var acks int
	once(t, b.relay(relay.Config{OrphanAfter: -1, Observer: func(seen waybill.Observation) {
		if seen.Kind == waybill.ObservedAck && seen.Status == waybill.Orphaned && seen.Receiver == "gone" {
			acks++
		}
	}}), 0, 0)
	for _, r := range b.rows() {
		if r.Status != "orphaned" || r.Attempts != 0 || r.Starts != 0 || !strings.Contains(r.Error, `receiver "gone" is not declared`) {
			t.Fatalf("row %+v, want it orphaned, not charged, with the reason", r)
		}
	}
	if acks != 250 {
		t.Errorf("%d settlements were observed, want 250", acks)
	}
}

func TestDueRowsOfAnUnknownReceiverAreUntouched(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(3, time.Hour)
	b.exec(`UPDATE delivery SET receiver = 'gone'`)
	before := b.rows()
	r := b.relay(relay.Config{})
	once(t, r, 0, 0)
	once(t, r, 0, 0)
	if after := b.rows(); !slices.Equal(before, after) {
		t.Errorf("rows changed from %+v to %+v", before, after)
	}
	b.log.Want(t, 1, "level=WARN", "receiver=gone")
}

// loseRun lets a worker take the row of the queue's last message and die.
func (b *bench) loseRun(r *relay.Relay, offset *time.Duration, take bool) {
	b.Helper()
	if take {
		sent := b.queue.batches[len(b.queue.batches)-1]
		taken, err := b.store.Take(b.Context(), waybill.TakeRequest{By: "dead worker", Messages: sent, Leases: b.reg.Leases()})
		if err != nil || len(taken) != 1 {
			b.Fatalf("took %d rows, %v; want 1", len(taken), err)
		}
	}
	*offset += 10 * time.Minute
	b.store.SetClockOffset(*offset)
}

func TestRowWhoseRunsAreLostIsParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(1, time.Hour)
	r := b.relay(relay.Config{ParkAfter: 3})
	var offset time.Duration
	for range 3 {
		once(t, r, 0, 1)
		b.loseRun(r, &offset, true)
	}
	once(t, r, 0, 0)
	parked := b.rows()[0]
	if parked.Status != "dead" || !strings.Contains(parked.Error, "parked: 3 runs were begun") || parked.Attempts != 0 {
		t.Errorf("row %+v, want it dead and parked after 3 lost runs", parked)
	}
	b.log.Want(t, 1, "level=WARN", "delivery settled without a run", "status=dead", "parked")
}

func TestRowThatWaitsInAQueueIsNeverParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(1, time.Hour)
	r := b.relay(relay.Config{ParkAfter: 3})
	var offset time.Duration
	for i := range 10 {
		once(t, r, 0, 1)
		b.loseRun(r, &offset, i < 2) // two runs lost, eight messages
	}
	if waiting := b.rows()[0]; waiting.Status != "claimed" || waiting.Starts != 2 {
		t.Errorf("row %+v, want it owed still", waiting)
	}
}

func TestParkingCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(1, time.Hour)
	b.exec(`UPDATE delivery SET starts = 1000, status = 'claimed', claimed_by = 'dead relay', claimed_at = 1, lease_expires_at = 1`)
	once(t, b.relay(relay.Config{ParkAfter: -1}), 0, 1)
}
