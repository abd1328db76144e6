package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/worker"
)

// onePause fails the test unless there is just that pause, of about that length.
func (b *bench) onePause(lane string, length time.Duration) waybill.Pause {
	b.Helper()
	pauses, err := b.store.Pauses(context.Background())
	if err != nil || len(pauses) != 1 {
		b.Fatalf("pauses %+v, %v; want one", pauses, err)
	}
	pause := pauses[0]
	if pause.Lane != lane || pause.Left > length || pause.Left < length-15*time.Second {
		b.Errorf("pause %+v, want one of lane %s for %s", pause, lane, length)
	}
	return pause
}

func (b *bench) noPause() {
	b.Helper()
	if pauses, err := b.store.Pauses(context.Background()); err != nil || len(pauses) != 0 {
		b.Errorf("pauses %+v, %v; want none", pauses, err)
	}
}

// Deferrals pause their lane for the wait that was asked for, not for the spread one
// of their rows (trap 26), once for all that end together. What comes after them is
// given back unrun, without a start, in its old place; other lanes go on.
func TestDeferralPausesItsLane(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: "a", Event: waybill.AnyEvent, Options: waybill.Options{Lane: "mail", GiveUpAfter: time.Hour},
		Run: func(context.Context, *waybill.Delivery) error {
			runs.Add(1)
			return waybill.Defer(10 * time.Minute)
		}})
	reg.Add(waybill.Receiver{Key: "b", Event: waybill.AnyEvent, Run: succeed})
	b := newBench(t, reg)
	w := b.start(worker.Config{Slots: 1})
	b.fire(1, "parcel.sent", `{}`)
	wantNil(t, b.queue.give(b.claim("a")...), 1)
	b.awaitLine("lane paused", "lane=mail")
	pause := b.onePause("mail", 10*time.Minute)
	if pause.By != w.ID() || pause.Reason != "a, delivery 1: deferred for 10m0s" {
		t.Errorf("pause %+v, want it to say who and why", pause)
	}

	b.fire(5, "parcel.sent", `{}`)
	before := b.rows()
	wantNil(t, b.queue.give(b.claim()...), 5+6)
	for _, was := range before {
		r := b.row(was.ID)
		switch {
		case was.ID == 1: // it waits out its own wait
		case r.Receiver == "b":
			b.wantRow(r.ID, waybill.Succeeded, 1, 1)
		case !r.GivenBack() || r.Starts != 0 || r.Attempts != 0 || r.AvailableAt != was.AvailableAt:
			t.Errorf("row of the paused lane %+v, want it given back as it was: %+v", r, was)
		}
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs in the lane, want the one that was deferred", n)
	}
	refusals := b.seen.of(waybill.ObservedRefusal)
	if len(refusals) != 5 || refusals[0].Refusal != waybill.RefusedPaused {
		t.Errorf("observed refusals %+v, want 5 for the pause", refusals)
	}
	b.log.Want(t, 0, "level=WARN", "given back")

	// The pause ends by the database's clock, and the rows are taken as ever.
	b.store.SetClockOffset(11 * time.Minute)
	wantNil(t, b.queue.give(b.reclaim()...), 5)
	b.awaitLine("lane paused", "lane=mail")
	w.stop()
	if n := runs.Load(); n < 2 {
		t.Errorf("%d runs after the pause, want more", n)
	}
}

// What pauses nothing: a deferral whose row was lost (trap 27), one of a fan-out's
// target, one that spends an attempt, one that is final (trap 24), and any other outcome.
func TestWhatPausesNoLane(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options waybill.Options
		returns error
		lost    bool
		target  bool
	}{
		"its row was lost":       {options: waybill.Options{GiveUpAfter: time.Hour}, returns: waybill.Defer(time.Minute), lost: true},
		"it is of one target":    {options: waybill.Options{GiveUpAfter: time.Hour}, returns: waybill.Defer(time.Minute), target: true},
		"it counts":              {returns: waybill.Defer(time.Minute)},
		"it is final":            {options: waybill.Options{GiveUpAfter: time.Nanosecond}, returns: waybill.Defer(time.Minute)},
		"it is no deferral":      {options: waybill.Options{GiveUpAfter: time.Hour}, returns: waybill.RetryAfter(time.Minute)},
		"it is an error":         {options: waybill.Options{GiveUpAfter: time.Hour}, returns: errors.New("no")},
		"it is a success at all": {options: waybill.Options{GiveUpAfter: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b *bench
			reg := registry(t, func(context.Context, *waybill.Delivery) error {
				if c.lost {
					b.exec("UPDATE delivery SET claimed_by = 'somebody else'")
				}
				return c.returns
			}, map[string]waybill.Options{"a": c.options})
			b = newBench(t, reg)
			w := b.start(worker.Config{})
			b.fire(1, "parcel.sent", `{}`)
			if c.target {
				b.exec("UPDATE delivery SET target = 'https://a.example'")
			}
			wantNil(t, b.queue.give(b.claim()...), 1)
			w.stop()
			b.noPause()
			if n := b.fault.Count("PauseLane"); n != 0 {
				t.Errorf("%d pauses were asked for", n)
			}
		})
	}
}

// A pause that cannot be recorded costs nobody an outcome, and is told in one line.
func TestPauseThatCannotBeRecordedLosesNoOutcome(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]fault.Hook{
		"fails": {Before: func(context.Context) error { return errDown }},
		"hangs": {Before: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error { return waybill.Defer(time.Minute) },
				map[string]waybill.Options{"a": {GiveUpAfter: time.Hour}}))
			b.fault.On("PauseLane", hook)
			w := b.start(worker.Config{Drain: 100 * time.Millisecond})
			wantNil(t, b.deliver(3), 3)
			b.settled()
			w.stop()
			for id := int64(1); id <= 3; id++ {
				b.wantRow(id, waybill.Failed, 0, 0)
			}
			b.noPause()
			b.log.Want(t, 3, "level=WARN", "delivery deferred")
			if n := len(b.log.Lines("level=WARN", "lane not paused", "lane=default")); n < 1 || n > 3 {
				t.Errorf("%d lines about the pause, want one for each try", n)
			}
		})
	}
}

// A deferral of a transactional receiver rolls its work back and pauses the lane too.
func TestDeferralOfATransactionalReceiver(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: "stock", Event: waybill.AnyEvent, Options: waybill.Options{Lane: "stock", GiveUpAfter: time.Hour}, TxKind: "*sql.Tx",
		RunTx: func(context.Context, any, *waybill.Delivery) error { return waybill.Defer(time.Minute) }})
	b := newBench(t, reg)
	w := b.start(worker.Config{})
	wantNil(t, b.deliver(1), 1)
	b.awaitLine("lane paused", "lane=stock")
	w.stop()
	b.wantRow(1, waybill.Failed, 0, 0)
	b.onePause("stock", time.Minute)
}

// A row of a paused lane that cannot be given back waits for its lease, and says so.
func TestRowOfAPausedLaneThatCannotBeGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, succeed, map[string]waybill.Options{"a": {}}))
	if _, err := b.store.PauseLane(t.Context(), waybill.PauseRequest{Lane: "default", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	b.fault.On("GiveBack", fault.Hook{Before: func(context.Context) error { return errDown }})
	w := b.start(worker.Config{})
	wantNil(t, b.deliver(1), 1)
	w.stop()
	r := b.wantRow(1, waybill.Claimed, 0, 0)
	if r.HandedOff == 0 || r.TakenAt != 0 {
		t.Errorf("row %+v, want it as its relay left it", r)
	}
	b.log.Want(t, 1, "level=WARN", "row of a paused lane not given back", "delivery_id=1")
}
