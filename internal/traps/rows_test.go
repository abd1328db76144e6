package traps

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/ops"
)

var rowCases = []testCase{
	// Traps 2, 22 and 23: owed is spelled out once here and once there, and not the same
	// each time. With one row in each status, all that asks what is owed finds the three.
	{"owed is the same wherever it is asked", func(r *rig) {
		owed := []waybill.Status{waybill.Claimed, waybill.Failed, waybill.Pending}
		statuses := append(slices.Clone(owed), waybill.Succeeded, waybill.Dead, waybill.Orphaned, waybill.Cancelled)
		later := waybill.NewRegistry() // a release without half of the receivers, and with another event for the rest
		nothing := func(context.Context, *waybill.Delivery) error { return nil }
		for _, status := range statuses {
			for _, key := range []string{"gone.", "kept."} {
				r.reg.Add(waybill.Receiver{Key: key + string(status), Event: sent.Name, Run: nothing})
			}
			later.Add(waybill.Receiver{Key: "kept." + string(status), Event: "parcel.shipped", Run: nothing})
		}
		r.open()
		r.fire(sent)
		for _, status := range statuses {
			if !status.Owed() && slices.Contains(owed, status) || status.Owed() && !slices.Contains(owed, status) {
				r.Errorf("%s is owed: %t", status, status.Owed())
			}
			r.exec("UPDATE delivery SET status = '%s' WHERE receiver IN ('gone.%[1]s', 'kept.%[1]s')", status)
		}
		report, err := ops.Status(r.Context(), r.store, later, nil)
		r.must(err)
		var unknown []string
		var renamed []ops.UnknownEvent
		for _, status := range owed {
			unknown = append(unknown, "gone."+string(status))
			renamed = append(renamed, ops.UnknownEvent{Event: sent.Name, Receiver: "kept." + string(status), Owed: 1})
		}
		if diff := cmp.Diff(unknown, report.UnknownReceivers); diff != "" {
			r.Errorf("receivers that are unknown (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(renamed, report.UnknownEvents); diff != "" {
			r.Errorf("events that are unknown (-want +got):\n%s", diff)
		}
		lanes, err := ops.Lanes(r.Context(), r.store, later)
		r.must(err)
		if report.Owed != 6 || report.Dead != 2 || lanes[0].Owed != 6 {
			r.Errorf("owed %d, in the lanes %+v, and dead %d; want 6, 6 and 2", report.Owed, lanes, report.Dead)
		}
	}},
	// Trap 46: an event that is deleted under way takes the relay, or the batch, with it.
	// Wherever its row is then, the others of its batch are delivered.
	{"an event that is gone takes its own row along", func(r *rig) {
		var once sync.Once
		var second atomic.Int64
		drop := func() { r.exec("DELETE FROM event WHERE id = %d", second.Load()) }
		begun, dropped := make(chan struct{}, 9), make(chan struct{})
		// The lease is longer than what a claim stamps: each hand-off extends it.
		r.receive(waybill.Options{Lease: time.Hour}, func(_ context.Context, d *waybill.Delivery) error {
			if d.Event.Version == 2 {
				begun <- struct{}{}
				<-dropped
			}
			return nil
		})
		each := r.serve()
		fire := func(version int) {
			r.fire(sent, waybill.RawEvent{Name: sent.Name, Version: version, Payload: sent.Payload}, sent)
			second.Store(int64(r.number("SELECT max(event_id) - 1 FROM delivery")))
		}

		fire(1) // gone between claim and extension
		r.fault.On("Extend", fault.Hook{Before: func(context.Context) error { drop(); return nil }})
		r.round(each, 2)
		r.fault.On("Extend", fault.Hook{})

		fire(1) // gone between extension and hand-off
		r.queue.before = func() { once.Do(drop) }
		r.round(each, 3)
		r.queue.before = nil

		fire(1) // gone before it is claimed
		drop()
		r.round(each, 2)

		fire(2) // gone while it runs
		if _, err := each.Once(r.Context(), 0); err != nil {
			r.Fatal(err)
		}
		<-begun
		drop()
		close(dropped)
		r.await()
		poll.Until(r.T, "the lost run to be told", func() bool { return len(r.log.Lines("the run lost its row")) == 1 })
		r.refusal("refused=no_row")
		if left := r.rows(); len(left) != 8 || slices.ContainsFunc(left, func(one row) bool { return one.Status != waybill.Succeeded }) {
			r.Errorf("rows %+v, want the eight whose events are there, delivered", left)
		}
	}},
	// Trap 57: a list of thousands, in one statement, has more parameters than a database
	// takes.
	{"thousands at once", func(r *rig) {
		const n = 6600 // and five columns each
		r.receive(waybill.Options{}, func(context.Context, *waybill.Delivery) error { return nil })
		events := make([]any, n)
		for i := range events {
			events[i] = waybill.RawEvent{Name: "parcel.lost", Payload: sent.Payload}
		}
		r.fire(events...)
		if fired := r.number("SELECT count(*) FROM event"); fired != n {
			r.Errorf("fired %d events, want %d", fired, n)
		}
	}},
	// Trap 67: a target is longer than an index entry may be, or is told from another by
	// its beginning.
	{"targets of any length", func(r *rig) {
		long := make([]byte, 60_000)
		_, _ = rand.Read(long) // or it would be kept compressed
		common := base64.StdEncoding.EncodeToString(long)
		targets := []string{common + "1", common + "2", common, "short"}
		var mu sync.Mutex
		var got []string
		r.receive(waybill.Options{Targets: waybill.TargetsOf(func(context.Context, waybill.RawEvent) ([]string, error) {
			return append(targets, targets...), nil
		})}, func(_ context.Context, d *waybill.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, d.Target)
			return nil
		})
		r.fire(sent)
		r.round(r.serve(), len(targets))
		slices.Sort(targets)
		slices.Sort(got)
		if !slices.Equal(targets, got) {
			r.Errorf("%d targets were delivered to, want each of the %d once", len(got), len(targets))
		}
	}},
	// Trap 76: an age that a backoff makes negative, and dead rows that alarm for ever.
	{"a delivery that fails grows old, and no older when it is dead", func(r *rig) {
		r.receive(waybill.Options{MaxAttempts: 2, Backoff: waybill.Backoff{Base: 1000 * time.Hour, Cap: 1000 * time.Hour}},
			func(context.Context, *waybill.Delivery) error { return errBroken })
		r.clock(-2 * time.Hour)
		r.fire(sent)
		r.clock(0)
		each := r.serve()
		status := func() ops.Report {
			report, err := ops.Status(r.Context(), r.store, r.reg, nil)
			r.must(err)
			return report
		}
		r.round(each, 1)
		if failing := status(); failing.Owed != 1 || failing.Failed != 1 || failing.Oldest() < 2*time.Hour || failing.Oldest() > 3*time.Hour {
			r.Errorf("while it fails: %+v, want one owed for two hours", failing.Counts)
		}
		r.at(r.only().Available.Add(time.Second))
		r.round(each, 1)
		if dead := status(); dead.Owed != 0 || dead.Dead != 1 || dead.Oldest() != 0 {
			r.Errorf("when it is dead: %+v, want nothing owed, and no age", dead.Counts)
		}
	}},
}
