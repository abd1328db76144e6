package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// eagerly runs an Eager on the bench. stop ends it and waits for it.
func (b *bench) eagerly(config worker.EagerConfig) (eager *worker.Eager, stop func()) {
	b.Helper()
	config.Store, config.Observer = b.store, b.seen.observe
	config.Logger, b.log = logtest.New()
	eager, err := worker.NewEager(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- eager.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	poll.Until(b.T, "the eager worker's start", func() bool { return eager.Free() > 0 })
	return eager, stop
}

// eagerRegistry declares "eager" with a run of the test's, and "plain" of the same event.
func eagerRegistry(t *testing.T, run func(context.Context, *waybill.Delivery) error, options waybill.Options) *waybill.Registry {
	t.Helper()
	options.Eager = true
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: "eager", Event: "parcel.sent", Options: options, Run: run})
	reg.Add(waybill.Receiver{Key: "plain", Event: "parcel.sent", Options: waybill.Options{Lane: "other"}, Run: succeed})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func TestEagerRunsExactlyWhatWasFired(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, succeed, waybill.Options{}))
	b.fire(1, "parcel.sent", `{}`) // before anybody is eager: left to the relay
	eager, stop := b.eagerly(worker.EagerConfig{})
	b.fire(1, "parcel.sent", `{}`)
	poll.Until(t, "the eager delivery", func() bool { return b.row(3).Status == waybill.Succeeded })
	stop()
	r := b.wantRow(3, waybill.Succeeded, 1, 1)
	if r.ClaimedBy != eager.ID() || r.HandedOff != 0 || r.TakenAt == 0 {
		t.Errorf("row %+v, want it taken by %s and never handed off", r, eager.ID())
	}
	for _, id := range []int64{1, 2, 4} {
		if r := b.wantRow(id, waybill.Pending, 0, 0); r.ClaimedBy != "" {
			t.Errorf("row %+v, want it untouched", r)
		}
	}
	for _, seen := range b.seen.of(waybill.ObservedTake) {
		if seen.Elapsed != 0 {
			t.Errorf("an eager delivery is said to have waited %s in a queue", seen.Elapsed)
		}
	}
}

func TestEagerRunsNothingThatWasRolledBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, succeed, waybill.Options{}))
	_, stop := b.eagerly(worker.EagerConfig{})
	rollBack := errors.New("roll back")
	err := b.store.InTx(t.Context(), func(tx *sql.Tx) error {
		if _, err := b.store.Fire(t.Context(), tx, waybill.RawEvent{Name: "parcel.sent", Payload: []byte("{}")}); err != nil {
			return err
		}
		return rollBack
	})
	if !errors.Is(err, rollBack) {
		t.Fatal(err)
	}
	stop()
	b.seen.wantCount(t, waybill.ObservedRun, 0)
}

// What finds no free slot is the relays', who are told.
func TestEagerLeavesWhatItCannotStart(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := newBench(t, eagerRegistry(t, func(context.Context, *waybill.Delivery) error { <-hold; return nil }, waybill.Options{}))
	woken := b.listen("default")
	_, stop := b.eagerly(worker.EagerConfig{Slots: 2})
	b.fire(1, "parcel.sent", `{}`)
	poll.Until(t, "a run", func() bool { return b.row(1).TakenAt != 0 })
	b.fire(1, "parcel.sent", `{}`)
	poll.Until(t, "two runs", func() bool { return b.row(3).TakenAt != 0 })
	clear(woken)
	b.fire(1, "parcel.sent", `{}`)
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Error("the relays were not woken for what the eager worker has no slot for")
	}
	close(hold)
	stop()
	b.wantRow(1, waybill.Succeeded, 1, 1)
	b.wantRow(3, waybill.Succeeded, 1, 1)
	b.wantRow(5, waybill.Pending, 0, 0)
}

// clear empties a channel of signals.
func clear(signals chan struct{}) {
	for {
		select {
		case <-signals:
		default:
			return
		}
	}
}

// listen returns a channel on which wakes of the lane arrive.
func (b *bench) listen(lane string) chan struct{} {
	b.Helper()
	woken, hears := make(chan struct{}, 100), make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- b.store.Listen(ctx, lane, func() {
			hears <- struct{}{}
			woken <- struct{}{}
		})
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	<-hears // the first says that it can hear
	clear(woken)
	return woken
}

func TestEagerIsOnlyTheFirstAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, func(context.Context, *waybill.Delivery) error { return errors.New("busy") }, waybill.Options{}))
	_, stop := b.eagerly(worker.EagerConfig{})
	b.fire(1, "parcel.sent", `{}`)
	poll.Until(t, "the failed attempt", func() bool { return b.row(1).Status == waybill.Failed })
	stop()
	b.wantRow(1, waybill.Failed, 1, 1)
	b.store.SetClockOffset(time.Hour)
	if messages := b.claim("eager"); len(messages) != 1 {
		t.Errorf("a relay claims %d rows, want the one that failed", len(messages))
	}
}

func TestEagerLeavesWhatIsScheduled(t *testing.T) {
	t.Parallel()
	type parcel struct{}
	reg := waybill.NewRegistry()
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	waybill.On(reg, "later", func(context.Context, parcel) error { return nil }, waybill.Options{
		Eager: true, Due: waybill.DueOf(func(context.Context, parcel) (time.Time, error) { return time.Now().Add(time.Hour), nil }),
	})
	b := newBench(t, reg)
	eager, stop := b.eagerly(worker.EagerConfig{})
	var id int64
	err := b.store.InTx(t.Context(), func(tx *sql.Tx) (err error) {
		id, err = b.store.Fire(t.Context(), tx, parcel{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eager.Fired(t.Context(), id) // nor when it is told of the event
	stop()
	b.wantRow(1, waybill.Pending, 0, 0)
}

// A transaction of the caller's own is told of by hand.
func TestEagerIsToldOfOtherTransactions(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, succeed, waybill.Options{}))
	woken := b.listen("other")
	b.fire(1, "parcel.sent", `{}`)
	<-woken
	eager, stop := b.eagerly(worker.EagerConfig{})
	eager.Fired(t.Context())
	eager.Fired(t.Context(), 1)
	<-woken // for the plain receiver
	poll.Until(t, "the eager delivery", func() bool { return b.row(1).Status == waybill.Succeeded })
	stop()
	b.wantRow(2, waybill.Pending, 0, 0)
	eager.Fired(t.Context(), 1) // after its end it is a wake
	<-woken
}

// What a transactional receiver fires is run when its transaction is committed.
func TestEagerFollowsTransactionalReceivers(t *testing.T) {
	t.Parallel()
	type order struct{}
	type parcel struct{}
	reg := waybill.NewRegistry()
	waybill.Declare[order](reg, "order.placed", waybill.EventOptions{})
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	var store *sqlite.Store
	sqlite.OnTx(reg, "ship", func(ctx context.Context, tx *sql.Tx, _ order) error {
		_, err := store.Fire(ctx, tx, parcel{})
		return err
	}, waybill.Options{Eager: true})
	waybill.On(reg, "track", func(context.Context, parcel) error { return nil }, waybill.Options{Eager: true})
	b := newBench(t, reg)
	store = b.store
	_, stop := b.eagerly(worker.EagerConfig{})
	b.fire(1, "order.placed", `{}`)
	poll.Until(t, "both deliveries", func() bool {
		rows := b.rows()
		return len(rows) == 2 && rows[0].Status == waybill.Succeeded && rows[1].Status == waybill.Succeeded
	})
	stop()
}

func TestOneEagerForAStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, succeed, waybill.Options{}))
	_, stop := b.eagerly(worker.EagerConfig{})
	second, err := worker.NewEager(worker.EagerConfig{Store: b.store})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "tells somebody already") {
		t.Errorf("the second one ran: %v", err)
	}
	stop()
	if _, err := worker.NewEager(worker.EagerConfig{}); err == nil {
		t.Error("an eager worker without a store was made")
	}
}
